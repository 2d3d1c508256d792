package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/state"
)

// NewCodec makes `sluice codec`.
func NewCodec() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "codec",
		Short: "Encrypt and decode the payloads that Temporal stores",
		Long: `If $SLUICE_CODEC_KEYS names a key file, the inputs, results, errors and
summaries of workflows are encrypted before they are sent to Temporal. Every
Sluice process needs the file: workers, agents and this command line.`,
	}, newCodecKey(), newCodecServe())
}

func newCodecKey() *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Print a new key for the key file",
		Long: `Print a new key, with its ID, as a line for the file that $SLUICE_CODEC_KEYS
names. The first key in the file encrypts, and all of them decrypt. The file
must be readable by its owner only.`,
		Example: `  (umask 077; sluice codec key > ~/.sluice-keys)
  export SLUICE_CODEC_KEYS=~/.sluice-keys`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), codec.NewKey(time.Now()))
			return err
		},
	}
}

func newCodecServe() *cobra.Command {
	var origins []string
	var port int
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a codec server for the Temporal UI of a cluster",
		Long: `Run a codec server on loopback, which Temporal's UI and CLI use to decode
payloads. It only answers pages of the given origins, and programs on this
machine. Set the printed address as the codec server in the UI. The UI of
` + "`sluice up`" + ` does not need this.`,
		Example: `  export SLUICE_CODEC_KEYS=keys SLUICE_STORE=file:///mnt/sluice
  sluice codec serve --origin https://temporal.example.com`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringSliceVar(&origins, "origin", nil, "origin of the UI's pages, such as https://temporal.example.com; may be repeated")
	cmd.Flags().IntVar(&port, "port", 8234, "port on loopback")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(origins) == 0 {
			return kit.UsageError(cmd, "set the origin of the UI's pages with --origin: pages of other sites are rejected")
		}
		for _, origin := range origins {
			if !isOrigin(origin) {
				return kit.UsageError(cmd, fmt.Sprintf("--origin %s is not the origin of a page: use a scheme, a host and optionally a port, such as https://temporal.example.com", origin))
			}
		}
		handler, err := codecHandler(cmd)
		if err != nil {
			return err
		}
		return serveCodec(cmd, codec.ForOrigins(handler, origins), port)
	}
	return cmd
}

// isOrigin reports whether text is an origin in the form in which browsers send it.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && text == u.Scheme+"://"+u.Host
}

func codecHandler(cmd *cobra.Command) (http.Handler, error) {
	if err := state.Check(kit.StateDir(cmd)); err != nil {
		return nil, err
	}
	s, err := state.OpenStore(cmd.Context(), kit.StateDir(cmd)) // which may have no runs yet
	if err != nil {
		return nil, err
	}
	payloads, err := codec.Open(os.Getenv(codec.KeysVariable), s)
	if err != nil {
		return nil, err
	}
	return payloads.Handler()
}

// serveCodec serves until a signal comes.
func serveCodec(cmd *cobra.Command, handler http.Handler, port int) error {
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("codec server: %w: choose another --port", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "codec server at http://%s; Ctrl-C stops\n", listener.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return fmt.Errorf("codec server: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(stopping) != nil { // a request that takes long
		return server.Close()
	}
	return nil
}
