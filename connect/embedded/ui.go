package embedded

import (
	"context"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// uiKeyParam is the query parameter in which a printed URL carries the browser's key.
const uiKeyParam = "key"

// uiServer is Temporal's UI with access control. Its routes are put together here and not by NewServer of ui-server, because that opens its
// own port, exits the process if the port is taken, and leaves access control to others.
type uiServer struct {
	http *http.Server
	done chan error
}

// startUI serves the UI on listener, and closes it at the end. It calls the frontend through conn, as the owner.
func startUI(listener net.Listener, o Options, conn *grpc.ClientConn, log *slog.Logger) (*uiServer, error) {
	routes, err := uiRoutes(o.Codec, conn)
	if err != nil {
		return nil, err
	}
	s := &uiServer{
		http: &http.Server{
			Handler:           http.NewCrossOriginProtection().Handler(uiDoor(o.Token, port(listener), routes)),
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

func (s *uiServer) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var cut error
	if s.http.Shutdown(ctx) != nil { // a long poll of a browser
		cut = s.http.Close()
	}
	err := errors.Join(cut, <-s.done)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// codecPath is where the UI sends payloads to be decoded. It is on the same server as the pages, so the same access control applies.
const codecPath = "/codec"

// uiRoutes returns the UI's pages and its API. codec may be nil.
func uiRoutes(codec http.Handler, conn *grpc.ClientConn) (http.Handler, error) {
	config := &uiconfig.Config{
		TemporalGRPCAddress: conn.Target(),
		DefaultNamespace:    Namespace,
		DisableNewsFetch:    true, // nothing here calls home
	}
	if codec != nil {
		config.Codec.Endpoint = codecPath
	}
	settings, err := uiconfig.NewConfigProviderWithRefresh(config)
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	pages, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure())
	e.GET("/api/v1/settings", api.GetSettings(settings))
	e.GET("/api/v1"+api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(conn)))
	e.Any("/api/v1/*", api.TemporalAPIHandler(settings, nil, conn))
	if codec != nil {
		e.POST(codecPath+"/*", echo.WrapHandler(codec))
	}
	route.SetRenderRoute(e, "")
	return e, route.SetUIRoutes(e, "", pages)
}

// landing gives a browser that has chosen no columns for its list of workflows those that tell runs apart: Temporal calls a run that was declined
// Completed. The UI keeps the choice in the browser, under this key.
var landing = template.Must(template.New("landing").Parse(`<!doctype html>
<meta charset="utf-8"><title>Sluice</title>
<script>
try {
  const key = "namespace-workflow-table-columns", chosen = JSON.parse(localStorage.getItem(key) || "{}")
  chosen[{{.Namespace}}] ??= ["Status", "SluiceVerdict", "SluicePipeline", "Workflow ID", "Start", "End"].map(label => ({label}))
  localStorage.setItem(key, JSON.stringify(chosen))
} catch {}
location.replace({{.To}})
</script>
<noscript><a href="{{.To}}">Temporal</a></noscript>
`))

// uiDoor lets in a browser that opens a printed URL, and moves the key in it to a cookie. Cookies do not distinguish ports, so the cookie's
// name contains the port; the UIs of two state folders can then be open at the same time.
func uiDoor(token Token, port int, next http.Handler) http.Handler {
	key, name := token.uiKey(), "sluice_ui_"+strconv.Itoa(port)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if given := query.Get(uiKeyParam); given != "" && equal(given, key) {
			http.SetCookie(w, &http.Cookie{Name: name, Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
			query.Del(uiKeyParam)
			clean := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: query.Encode()}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_ = landing.Execute(w, map[string]string{"To": clean.String(), "Namespace": Namespace}) // a browser that has left needs none
			return
		}
		cookie, err := r.Cookie(name)
		if err != nil || !equal(cookie.Value, key) {
			http.Error(w, "This is the Temporal UI of a Sluice state folder. Open it with the URL that sluice prints, which contains the key.", http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization") // it would be forwarded in addition to the owner's
		next.ServeHTTP(w, r)
	})
}
