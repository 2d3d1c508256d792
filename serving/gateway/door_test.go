package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/door/doortest"
	"github.com/sluiceml/sluice/serving/oip/inference"
	"github.com/sluiceml/sluice/serving/trust"
	"github.com/sluiceml/sluice/store"
)

const (
	ownKey  = "the-key-of-sluice-itself"
	webKey  = "the-key-of-the-web-shop"
	labels  = "the-key-of-those-who-label"
	metrics = "the-key-of-prometheus"
	admin   = "the-key-of-operations"
)

// front is a Server with a door, which serves a model that echoes.
type front struct {
	*Server
	ca     *doortest.CA
	client *http.Client
	access accessLines
}

// openFront serves at a certificate for a name. Clients take that name for the gateway's address.
func openFront(t *testing.T, g spec.TargetGateway, name string) *front {
	t.Helper()
	f := &front{ca: doortest.NewCA(t)}
	files := f.ca.Files(t, name)
	g.TLS = &files
	log := slog.New(slog.DiscardHandler)
	secrets := map[string]string{"web": webKey, "labels": labels, "prometheus": metrics, "ops": admin}
	d, err := door.Open(t.Context(), door.Options{Target: "m", Gateway: g, Logger: log, Secret: func(_ context.Context, name string) (string, bool, error) {
		return secrets[name], false, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: s}
	open, err := Local(s, filepath.Join(t.TempDir(), "models"), b.load)
	if err != nil {
		t.Fatal(err)
	}
	f.Server, err = Serve(t.Context(), Ports{Host: g.Listen, MetricsHost: g.MetricsListen, Door: d, Access: access.New(&f.access, log)}, Options{Store: s, Target: "m", Open: open, LabelKey: ownKey, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	b.Gateway = f.Gateway
	f.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.ca.Pool(), ServerName: "shop.test"}}}
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	return f
}

func (f *front) do(t *testing.T, method, at, body, bearer string) doorReply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return doorReply{resp.StatusCode, resp.Header, string(raw)}
}

type doorReply struct {
	status int
	header http.Header
	body   string
}

// live asks a gateway's health, and says why it cannot.
func live(client *http.Client, gateway string) error {
	resp, err := client.Get(gateway + livePath)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (f *front) dial(t *testing.T, bearer string) (inference.GRPCInferenceServiceClient, context.Context) {
	t.Helper()
	at, err := url.Parse(f.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(at.Host, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: f.ca.Pool(), ServerName: "shop.test"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	if bearer != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer)
	}
	return inference.NewGRPCInferenceServiceClient(conn), ctx
}

func keyed(jwks string) spec.TargetGateway {
	return spec.TargetGateway{
		Listen: "0.0.0.0", MetricsListen: "0.0.0.0",
		Keys: []spec.GatewayKey{
			{Secret: "web", Allow: []string{"infer"}},
			{Secret: "labels", Allow: []string{"infer", "label"}},
			{Secret: "prometheus", Allow: []string{"metrics"}},
			{Secret: "ops", Allow: []string{"admin"}},
		},
		JWT: []spec.GatewayJWT{{Issuer: "https://issuer.test", Audience: "shop", JWKS: jwks, Allow: []string{"infer"}}},
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	signer := doortest.NewSigner(t, "1")
	jwks := filepath.Join(t.TempDir(), "jwks.json")
	doortest.Write(t, jwks, doortest.KeySet(t, signer))
	f := openFront(t, keyed(jwks), "shop.test")
	token, expired := signer.Token(t, doortest.Claims(nil)), signer.Token(t, doortest.Claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))
	labelled := strings.Replace(request, `{`, `{"parameters":{"label":0},`, 1)
	const index = "/v2/repository/index"
	callers := []string{"", "wrong-key", webKey, labels, metrics, admin, ownKey, token, expired}
	for _, tc := range []struct {
		name, method, at, body string
		want                   []int // by caller
	}{
		{"health", "GET", f.URL() + "/v2/health/ready", "", []int{200, 200, 200, 200, 200, 200, 200, 200, 200}},
		{"live", "GET", f.URL() + "/v2/health/live", "", []int{200, 200, 200, 200, 200, 200, 200, 200, 200}},
		{"infer", "POST", f.URL() + inferPath, request, []int{401, 401, 200, 200, 403, 403, 200, 200, 401}},
		{"label", "POST", f.URL() + inferPath, labelled, []int{401, 401, 403, 200, 403, 403, 200, 403, 401}},
		{"metadata", "GET", f.URL() + "/v2/models/m", "", []int{401, 401, 200, 200, 403, 403, 200, 200, 401}},
		{"server", "GET", f.URL() + "/v2", "", []int{401, 401, 200, 200, 403, 403, 200, 200, 401}},
		{"index", "POST", f.URL() + index, "", []int{401, 401, 403, 403, 403, 200, 403, 403, 401}},
		{"load", "POST", f.URL() + "/v2/repository/models/m/load", "", []int{401, 401, 403, 403, 403, 403, 403, 403, 401}},
		{"another way to the index", "POST", f.URL() + "/v2/%72epository/index", "", []int{401, 401, 403, 403, 403, 200, 403, 403, 401}},
		{"nothing", "GET", f.URL() + "/v2/nothing", "", []int{401, 401, 404, 404, 403, 403, 404, 404, 401}},
		{"metrics", "GET", f.MetricsURL(), "", []int{401, 401, 403, 403, 200, 403, 403, 403, 401}},
		{"metrics at the model's port", "GET", f.URL() + "/metrics", "", []int{401, 401, 404, 404, 403, 403, 404, 404, 401}},
		{"index at the port of control", "POST", f.ControlURL() + index, "", []int{200, 200, 200, 200, 200, 200, 200, 200, 200}},
		{"load at the port of control", "POST", f.ControlURL() + "/v2/repository/models/m/load", "", []int{403, 403, 403, 403, 403, 403, 403, 403, 403}},
	} {
		for i, caller := range callers {
			got := f.do(t, tc.method, tc.at, tc.body, caller)
			if got.status != tc.want[i] {
				t.Errorf("%s by %.12q: %d %s, want %d", tc.name, caller, got.status, got.body, tc.want[i])
			}
			challenge := got.header.Get("WWW-Authenticate")
			if (got.status == 401) != strings.HasPrefix(challenge, `Bearer realm="m"`) || (got.status == 401 && caller != "") != strings.Contains(challenge, "invalid_token") {
				t.Errorf("%s by %.12q: %d with the challenge %q", tc.name, caller, got.status, challenge)
			}
			if caller != "" && strings.Contains(got.body, caller) {
				t.Errorf("%s: the key is in the answer %s", tc.name, got.body)
			}
		}
	}
}

func TestWhoMayDoWhatOverGRPC(t *testing.T) {
	f := openFront(t, spec.TargetGateway{Keys: keyed("").Keys}, "shop.test")
	message := func(label bool) *inference.ModelInferRequest {
		m := &inference.ModelInferRequest{ModelName: "m", Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "x", Datatype: "FP32", Shape: []int64{1, 1}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1}}},
		}}
		if label {
			m.Parameters = map[string]*inference.InferParameter{"label": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 0}}}
		}
		return m
	}
	for _, tc := range []struct {
		bearer                 string
		metadata, infer, label codes.Code
		index, load            codes.Code
	}{
		{"", codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		{"wrong-key", codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		{webKey, codes.OK, codes.OK, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied},
		{labels, codes.OK, codes.OK, codes.OK, codes.PermissionDenied, codes.PermissionDenied},
		{admin, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied, codes.OK, codes.PermissionDenied},
		{ownKey, codes.OK, codes.OK, codes.OK, codes.PermissionDenied, codes.PermissionDenied},
	} {
		client, ctx := f.dial(t, tc.bearer)
		if ready, err := client.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || !ready.GetReady() {
			t.Errorf("%q: health: %v, %v", tc.bearer, ready, err)
		}
		_, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"})
		_, inferErr := client.ModelInfer(ctx, message(false))
		_, labelErr := client.ModelInfer(ctx, message(true))
		_, indexErr := client.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
		_, loadErr := client.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: "m"})
		got := [5]codes.Code{status.Code(err), status.Code(inferErr), status.Code(labelErr), status.Code(indexErr), status.Code(loadErr)}
		if want := [5]codes.Code{tc.metadata, tc.infer, tc.label, tc.index, tc.load}; got != want {
			t.Errorf("%q: metadata, infer, label, index, load: %v (%v, %v, %v), want %v", tc.bearer, got, err, inferErr, labelErr, want)
		}
	}
}

func TestACertificateForAnotherName(t *testing.T) {
	f := openFront(t, spec.TargetGateway{}, "other.test")
	err := live(f.client, f.URL())
	if why := trust.Reason(err); why == nil || !strings.Contains(why.Error(), `for ["other.test"], not for shop.test`) {
		t.Errorf("got %v, want both names", err)
	}
	client, ctx := f.dial(t, "")
	if _, err := client.ServerLive(ctx, &inference.ServerLiveRequest{}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "other.test") {
		t.Errorf("over gRPC: %v", err)
	}
	f.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = doortest.NewCA(t).Pool()
	if err = live(f.client, f.URL()); trust.Reason(err) == nil {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestThisMachineKnowsTheCertificateByItsFile(t *testing.T) {
	f := openFront(t, spec.TargetGateway{}, "shop.test")
	own, _ := f.ca.Issue(t, "127.0.0.1")
	other := filepath.Join(t.TempDir(), "tls.crt")
	doortest.Write(t, other, own)
	for file, isIt := range map[string]bool{f.ca.Last: true, other: false} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.File(file), DisableKeepAlives: true}}
		err := live(client, f.URL())
		if (err == nil) != isIt || !isIt && trust.Reason(err) == nil {
			t.Errorf("with %s: %v", file, err)
		}
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.File(other), DisableKeepAlives: true}}
	if err := live(client, f.URL()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

// Clients that connect and say nothing, send a header too long, or have no key for what they begin to send, hold nothing.
func TestClientsAtTheDoorHoldNothing(t *testing.T) {
	f := openFront(t, spec.TargetGateway{Keys: keyed("").Keys}, "shop.test")
	at, err := url.Parse(f.URL())
	if err != nil {
		t.Fatal(err)
	}
	for range 300 { // more than there are places
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: f.ca.Pool(), ServerName: "shop.test"}}
	conn, err := dialer.DialContext(t.Context(), "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST "+inferPath+" HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 10000000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 12)
	if _, err := io.ReadFull(conn, first); err != nil || string(first) != "HTTP/1.1 401" {
		t.Errorf("before the body has come: %s, %v", first, err)
	}
	f.client.Transport.(*http.Transport).DisableKeepAlives = true
	if got := f.do(t, "GET", f.URL()+"/v2", "", strings.Repeat("x", 2*maxHeader)); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 128 KiB: %+v", got)
	}
	if got := f.do(t, "POST", f.URL()+inferPath, request, webKey); got.status != http.StatusOK {
		t.Errorf("a client with a key: %+v", got)
	}
	if f.Gateway.bodies.left.Load() != maxBodies {
		t.Error("a body is counted that nobody may send")
	}
}
