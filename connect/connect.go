// Package connect connects to Temporal: to the user's cluster, to the server of the process that holds the state folder, or to a server
// that it starts.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/release"
)

// Options says how to reach Temporal.
type Options struct {
	Dir    string       // the state folder, ".sluice"
	Logger *slog.Logger // of the SDK's client
	Codec  *codec.Codec // of payloads; nil for Temporal's default
	Python string       // the virtual environment of the users' programs, absolute, which a holder publishes
	// PythonNamed is published as holder.Info.PythonNamed.
	PythonNamed bool

	// CreateNamespace creates the namespace that a cluster lacks.
	CreateNamespace bool
	// Metrics receives the metrics of the client and of the workers that use it; nil for none.
	Metrics client.MetricsHandler

	// Patience bounds Dial as a whole. Default: Timeout.
	Patience time.Duration
	// Waiting, if not nil, is called once with what Dial waits for, if that takes long.
	Waiting func(what string)

	FrontendPort, UIPort int        // of a server started here; 0: the port of the last time if it is free, else any free one
	ServerLogLevel       slog.Level // of a server started here
	Exits                bool       // as in embedded.Options

	Settings embedded.Settings // of a server started here, for tests
}

// Timeout is the default of Options.Patience: a server starts within a second, or a few on a busy machine.
const Timeout = time.Minute

// Connection is a connection to Temporal, and to the state folder's holder if there is one.
type Connection struct {
	Client client.Client
	Info   holder.Info    // TemporalAddress and Namespace are always set
	Holder *holder.Holder // not nil when this process is the holder

	token  embedded.Token   // empty on the user's cluster
	server *embedded.Server // not nil when this process is the holder
}

// WorkflowURL returns the URL of a workflow's page in Temporal's UI. It contains a key, so only the folder's owner should get it. It is
// empty on a cluster, whose UI Sluice does not know.
func (c *Connection) WorkflowURL(workflowID, runID string) string {
	if c.token == "" {
		return ""
	}
	return c.token.WorkflowURL(c.Info.UIAddress, c.Info.Namespace, workflowID, runID)
}

// Folder names the state folder that the server belongs to; it is empty on a cluster.
func (c *Connection) Folder() string { return c.token.Folder() }

// Home identifies the server among those that share a store: by its state folder or, for a cluster, by namespace and address.
func (c *Connection) Home() string {
	return cmp.Or(c.Folder(), c.Info.Namespace+" at "+c.Info.TemporalAddress)
}

// IsElsewhere reports whether home is the Connection.Home of another server than that of the state folder dir. It connects to nothing, and
// so is false where it cannot know: with a cluster, or a token that cannot be read.
func IsElsewhere(dir, home string) bool {
	token, err := embedded.ReadToken(filepath.Join(dir, embedded.TokenFile))
	return home != "" && !ClusterNamed() && (err == nil || errors.Is(err, fs.ErrNotExist)) && home != token.Folder()
}

// MintAgentToken makes a token that lets an agent do its work on one run and nothing else; see embedded.Token.MintAgentToken. It is empty
// on a cluster, where agents use the credentials of their environment.
func (c *Connection) MintAgentToken(queuePrefix, run string) string {
	if c.token == "" {
		return ""
	}
	return c.token.MintAgentToken(queuePrefix, run)
}

// HasOpen reports whether there is a workflow that has not ended.
func (c *Connection) HasOpen(ctx context.Context, workflowID string) (bool, error) {
	desc, err := c.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	if IsNotFound(err) {
		return false, nil
	}
	return err == nil && IsRunning(desc.GetWorkflowExecutionInfo().GetStatus()), err
}

// Close closes the connection and, in the holder, stops the server and releases the folder. Workflows continue when the folder is next
// held.
func (c *Connection) Close() error {
	var errs []error
	if c.Client != nil {
		c.Client.Close()
	}
	if c.server != nil {
		errs = append(errs, c.server.Stop())
	}
	if c.Holder != nil {
		errs = append(errs, c.Holder.Release())
	}
	return errors.Join(errs...)
}

// Dial connects to Temporal:
//
//   - to the cluster that TEMPORAL_ADDRESS, TEMPORAL_PROFILE or TEMPORAL_CONFIG_FILE names, by Temporal's own rules for environment
//     variables and TOML profiles (TLS and API key included). A profile file that merely exists is not followed, so that a file made for
//     something else does not send a run to a cluster;
//   - else to the server of the process that holds the state folder;
//   - else to a server it starts in this process, which becomes the holder.
func Dial(ctx context.Context, o Options) (*Connection, error) {
	patience := cmp.Or(o.Patience, Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no connection within %v", patience))
	defer cancel()
	worker.SetBinaryChecksum(release.Build()) // before this process starts its first worker; the server has workers, too
	if ClusterNamed() {
		return connectCluster(ctx, o)
	}
	return connectFolder(ctx, o)
}

// ClusterNamed reports whether the environment names a Temporal cluster.
func ClusterNamed() bool {
	return os.Getenv("TEMPORAL_ADDRESS") != "" || os.Getenv("TEMPORAL_PROFILE") != "" || os.Getenv("TEMPORAL_CONFIG_FILE") != ""
}

func connectCluster(ctx context.Context, o Options) (*Connection, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, fmt.Errorf("read Temporal's client configuration (TEMPORAL_* variables and profile file): %w", err)
	}
	options.HostPort = cmp.Or(options.HostPort, client.DefaultHostPort)
	options.Namespace = cmp.Or(options.Namespace, client.DefaultNamespace)
	options.Logger, options.MetricsHandler = log.NewStructuredLogger(o.Logger), o.Metrics
	if o.Codec != nil {
		o.Codec.Configure(&options)
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connect to Temporal at %s: %w: check TEMPORAL_ADDRESS, TEMPORAL_API_KEY and the TLS settings, or unset them to use Sluice's own server", options.HostPort, err)
	}
	if o.CreateNamespace {
		err = createNamespace(ctx, c, options.Namespace)
	} else {
		err = requireNamespace(ctx, c, options.HostPort, options.Namespace)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Connection{Client: c, Info: holder.Info{TemporalAddress: options.HostPort, Namespace: options.Namespace}}, nil
}

// connectFolder attaches to the holder or becomes it. It tries both in turn until ctx ends, because a holder may end, or still be
// starting, at any moment.
func connectFolder(ctx context.Context, o Options) (*Connection, error) {
	defer TellSilent(ctx, o.Dir, o.Waiting)()
	var last error
	var silent int // the PID of the holder that was tried last
	for range poll.Every(ctx, 50*time.Millisecond) {
		info, found, err := holder.Find(o.Dir)
		if err != nil {
			return nil, err
		}
		silent = info.PID
		var c *Connection
		if found {
			c, err = attach(ctx, info, o)
		} else if c, err = hold(ctx, o); err != nil && !errors.Is(err, holder.ErrHeld) {
			return nil, err
		}
		if err == nil || errors.Is(err, errForm) {
			return c, err
		}
		last = err
	}
	if silent != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, silentError(o.Dir, silent, errors.Join(context.Cause(ctx), last))
	}
	return nil, fmt.Errorf("attach to the process that holds %s: %w: %w", o.Dir, context.Cause(ctx), last)
}

// attach connects to the holder's server.
func attach(ctx context.Context, info holder.Info, o Options) (*Connection, error) {
	if err := sameForm(info, o); err != nil {
		return nil, err
	}
	token, err := embedded.ReadToken(info.TokenFile)
	if err != nil {
		return nil, err
	}
	c, err := dialOwner(ctx, info, token, o)
	if err != nil {
		return nil, err
	}
	return &Connection{Client: c, Info: info, token: token}, nil
}

// errForm: this process and the holder could not read what the other writes.
var errForm = errors.New("one process encrypts payloads and the other does not")

// sameForm returns an error if one side encrypts and the other does not: payloads that should be encrypted would be stored in plain text,
// or could not be read.
func sameForm(info holder.Info, o Options) error {
	switch encrypts := o.Codec != nil && o.Codec.Encrypts(); {
	case info.CodecKeys != "" && !encrypts:
		return fmt.Errorf("%w: process %d, which holds %s, does; set %s=%s here too", errForm, info.PID, o.Dir, codec.KeysVariable, info.CodecKeys)
	case info.CodecKeys == "" && encrypts:
		return fmt.Errorf("%w: process %d, which holds %s, does not; restart it with %s, or unset that here",
			errForm, info.PID, o.Dir, codec.KeysVariable)
	}
	return nil
}

// hold takes the folder, starts a server and publishes its address. The error wraps holder.ErrHeld when another process was faster.
func hold(ctx context.Context, o Options) (_ *Connection, err error) {
	h, err := holder.Acquire(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &Connection{Holder: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.token, err = embedded.EnsureToken(o.Dir); err != nil {
		return nil, err
	}
	var decoder http.Handler
	var keyFile string
	if o.Codec != nil {
		keyFile = o.Codec.KeyFile()
		if decoder, err = o.Codec.Handler(); err != nil {
			return nil, err
		}
	}
	c.server, err = embedded.Start(ctx, embedded.Options{
		Dir: o.Dir, Token: c.token,
		FrontendPort: o.FrontendPort, UIPort: o.UIPort,
		Prefer:   embedded.Ports{Frontend: portOf(h.Last().TemporalAddress), UI: portOf(h.Last().UIAddress)},
		LogLevel: o.ServerLogLevel,
		Codec:    decoder,
		Exits:    o.Exits,
		Settings: o.Settings,
	})
	if err != nil {
		return nil, err
	}
	tokenFile, err := filepath.Abs(filepath.Join(o.Dir, embedded.TokenFile))
	if err != nil {
		return nil, err
	}
	c.Info = holder.Info{
		PID: os.Getpid(), TemporalAddress: c.server.Address(), UIAddress: c.server.UIAddress(),
		Namespace: embedded.Namespace, TokenFile: tokenFile, CodecKeys: keyFile, Python: o.Python, PythonNamed: o.PythonNamed,
	}
	if c.Client, err = dialOwner(ctx, c.Info, c.token, o); err != nil {
		return nil, err
	}
	return c, h.Publish(c.Info)
}

// portOf is the port of an address or URL without a path; 0 if it has none.
func portOf(address string) int {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	n, _ := strconv.Atoi(port)
	return n
}

// dialOwner connects to a folder's server with the owner's token.
func dialOwner(ctx context.Context, info holder.Info, token embedded.Token, o Options) (client.Client, error) {
	options := client.Options{
		HostPort:        info.TemporalAddress,
		Namespace:       info.Namespace,
		HeadersProvider: ownerHeaders(token),
		Logger:          log.NewStructuredLogger(o.Logger),
		MetricsHandler:  o.Metrics,
		// The server is on this machine, where compressing takes longer than sending.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	}
	if o.Codec != nil {
		o.Codec.Configure(&options)
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connect to Temporal at %s: %w", info.TemporalAddress, err)
	}
	return c, nil
}

// ownerHeaders puts the token on every call.
type ownerHeaders embedded.Token

// GetHeaders implements client.HeadersProvider.
func (h ownerHeaders) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(h)}, nil
}
