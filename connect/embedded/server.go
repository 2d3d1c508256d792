// Package embedded runs Temporal and its UI inside the process, on a SQLite file in a state folder.
//
// # Files in the folder
//
// The database (temporal-<schema>.db and the files that SQLite keeps next to it), the token, and the server's log (temporal.log and one
// predecessor). Only one process at a time may run a server on a folder; package holder ensures that. After a SIGKILL, the next Start opens
// the same file, and open workflows continue.
//
// # Who may do what
//
// Everything listens on 127.0.0.1, where every local user can connect, and a user who can start a workflow can run commands as the owner of
// the folder. So:
//
//   - The frontend refuses a call without the folder's token, a file only its owner can read ("authorization: Bearer <token>").
//   - An agent gets a token of its own (Token.MintAgentToken), good for its task queues, its run's activities and signals to its run.
//   - Temporal's internal ports, which do not check tokens, require a client certificate that never leaves the process.
//   - The UI requires a key that is derived from the token. The printed URL contains the key, which then becomes a cookie. Pages of
//     other sites cannot make the browser change anything.
//
// Temporal's own CLI gets in with --grpc-meta "authorization=Bearer $(cat .sluice/token)".
//
// Not covered: root can read loopback traffic; and after the server has ended, a process of another user could listen on its old port and
// receive an agent's token, which is of no use until the server runs again.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluiceml/sluice/internal/logfile"
	"github.com/sluiceml/sluice/internal/poll"
)

const (
	// LogFile is the name of the server's log in a state folder.
	LogFile = "temporal.log"
	// maxLog bounds each of the server's two log files, the current one and its predecessor.
	maxLog = 8 << 20
	// Namespace is the server's one namespace.
	Namespace = "default"
)

// Options says where and how to run.
type Options struct {
	Dir   string // the state folder; made when missing
	Token Token  // of that folder (EnsureToken)

	FrontendPort, UIPort int   // 0: Prefer's if it is free, else any free one
	Prefer               Ports // those of the last time, so that URLs stay valid and surviving agents find the server again

	LogLevel slog.Level // of the server's log

	Codec http.Handler // decodes payloads for the UI (codec.Codec.Handler); nil: the UI shows them as they are

	// Exits says that this process ends after Stop, which then does not wait for Temporal to drain its connections for a second: nobody who
	// could ask for something is left, and what Temporal has to do is in the database.
	Exits bool

	Settings Settings // take precedence over Sluice's own; only for tests of the server's limits
}

// Ports are the two ports others connect to.
type Ports struct{ Frontend, UI int }

// Server is a running Temporal with its UI.
type Server struct {
	ports    Ports
	temporal temporal.Server
	ui       *uiServer
	conn     *grpc.ClientConn // to the frontend, as the owner
	log      *logfile.File
	limit    time.Duration // of the wait for Temporal in Stop
}

// maxMessage bounds a response of the frontend. The default of gRPC, 4 MB, is less than a history can have.
const maxMessage = 128 << 20

// Start starts Temporal and its UI, and returns when the namespace can be used. The error is ErrPortInUse if one of the requested ports is
// taken. ctx bounds the start only.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if o.Token == "" {
		return nil, errors.New("embedded Temporal: Options.Token is empty: the server would be open to every local user")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	s := &Server{limit: stopLimit}
	if o.Exits {
		s.limit = exitLimit
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.log, err = logfile.Open(filepath.Join(dir, LogFile), maxLog); err != nil {
		return nil, fmt.Errorf("the log of Temporal: %w", err)
	}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: o.LogLevel}))

	uiListener, err := listen("Temporal's UI", o.UIPort, o.Prefer.UI)
	if err != nil {
		return nil, err
	}
	s.ports.UI = port(uiListener)
	defer func() {
		if s.ui == nil {
			err = errors.Join(err, uiListener.Close())
		}
	}()
	if err := s.startTemporal(ctx, o, dir, log); err != nil {
		return nil, err
	}
	if s.ui, err = startUI(uiListener, o, s.conn, log); err != nil {
		return nil, err
	}
	return s, nil
}

// Address is where the frontend listens, "127.0.0.1:7233".
func (s *Server) Address() string { return address(s.ports.Frontend) }

// UIAddress is where the UI listens, "http://127.0.0.1:8233"; it opens for Token.WorkflowURL only.
func (s *Server) UIAddress() string { return "http://" + address(s.ports.UI) }

// Stop ends the UI, then the server. Workflows stay in the database.
func (s *Server) Stop() error {
	var errs []error
	if s.ui != nil {
		errs = append(errs, s.ui.stop())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.temporal != nil {
		errs = append(errs, s.stopTemporal())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}

// stopLimit is how long Stop waits for Temporal. What still runs then is mostly cancellations for nodes that are gone, which the server
// retries for 10 s. They are in the database, and continue when the server is next started.
const stopLimit = 2 * time.Second

// exitLimit is stopLimit in a process that ends.
const exitLimit = 150 * time.Millisecond

// stopTemporal stops the server. If that takes too long, the end of the process does the rest.
func (s *Server) stopTemporal() error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.temporal.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(s.limit):
		return nil
	}
}

// startTemporal builds and starts the server and waits until the namespace can be described.
func (s *Server) startTemporal(ctx context.Context, o Options, dir string, log *slog.Logger) error {
	sql, err := openDatabase(dir)
	if err != nil {
		return err
	}
	reserved, err := reservePorts(o)
	if err != nil {
		return err
	}
	defer releasePorts(reserved)
	ports := make(map[primitives.ServiceName]int, len(reserved))
	for name, r := range reserved {
		ports[name] = r.port
	}
	if s.temporal, err = build(sql, ports, o, log); err != nil {
		return fmt.Errorf("build the embedded Temporal: %w (more in %s)", err, s.log.Path())
	}
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("start the embedded Temporal: %w (more in %s)", err, s.log.Path())
	}
	s.ports.Frontend = ports[primitives.FrontendService]
	if s.conn, err = dial(s.Address(), o.Token); err != nil {
		return err
	}
	if err := awaitNamespace(ctx, s.conn); err != nil {
		return fmt.Errorf("wait for the embedded Temporal: %w (more in %s)", err, s.log.Path())
	}
	return nil
}

// reservePorts reserves a port for every service. Release them once Temporal listens on them.
func reservePorts(o Options) (map[primitives.ServiceName]reservation, error) {
	ports := make(map[primitives.ServiceName]reservation, len(services))
	for _, name := range services {
		var port, prefer int
		if name == primitives.FrontendService {
			port, prefer = o.FrontendPort, o.Prefer.Frontend
		}
		r, err := reserve("Temporal's "+string(name), port, prefer)
		if err != nil {
			releasePorts(ports)
			return nil, err
		}
		ports[name] = r
	}
	return ports, nil
}

func releasePorts(ports map[primitives.ServiceName]reservation) {
	for _, r := range ports {
		r.release()
	}
}

// build creates the server. Where Temporal would exit the process, for example if it cannot listen on a port, build returns an error.
func build(sql *config.SQL, ports map[primitives.ServiceName]int, o Options, log *slog.Logger) (_ temporal.Server, err error) {
	tls, err := newInternode()
	if err != nil {
		return nil, err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			err = errors.New(string(p))
		default:
			panic(p)
		}
	}()
	names := make([]string, len(services))
	for i, name := range services {
		names[i] = string(name)
	}
	return temporal.NewServer(
		temporal.WithConfig(serverConfig(sql, ports)),
		temporal.ForServices(names),
		temporal.WithStaticHosts(staticHosts(ports)),
		temporal.WithDynamicConfigClient(dynamicConfig(o.Settings)),
		temporal.WithTLSConfigFactory(tls),
		temporal.WithAuthorizer(authorizer{}),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claimMapper{o.Token} }),
		temporal.WithLogger(logger{slog: log}),
	)
}

// dial opens a connection to the frontend on which every call carries the owner's token.
func dial(address string, token Token) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(bearer(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded Temporal: %w", err)
	}
	return conn, nil
}

// bearer is the token as gRPC credentials.
type bearer Token

// GetRequestMetadata returns the header that the authorizer looks for.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false: the connection never leaves the machine.
func (bearer) RequireTransportSecurity() bool { return false }

// awaitNamespace waits until the frontend knows the namespace.
func awaitNamespace(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	service := workflowservice.NewWorkflowServiceClient(conn)
	var err error
	for range poll.Every(ctx, 10*time.Millisecond) {
		if _, err = service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace}, grpc.WaitForReady(true)); err == nil {
			return nil
		}
	}
	return errors.Join(context.Cause(ctx), err)
}
