// Package control is what a command asks of a running Sluice: to submit a run, rerun, watch and cancel it, to decide on what waits, to find
// runs, and to plan triggers. It carries nothing on: that is package worker's.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/store"
)

// Options says where the state is and how to connect.
type Options struct {
	// StateDir is the state folder. Default: .sluice in the working folder.
	StateDir string
	// Python is the virtual environment of the users' programs, which a holder publishes; empty for the one state.FindPython finds.
	Python string
	// Logger takes what Temporal's client and worker say. Default: a file in the state folder.
	Logger *slog.Logger
	// CreateNamespace creates the namespace that a cluster lacks.
	CreateNamespace bool
	// Metrics makes, with the session's log, what takes what the client, and the workers made of it, measure; nil for nothing.
	Metrics func(*slog.Logger) client.MetricsHandler
	// Follow makes known that this process follows a run: whoever holds the state folder does not leave of itself meanwhile. It asks
	// Alone before it does.
	Follow bool
	// Patience and Waiting are those of connect.Options.
	Patience time.Duration
	Waiting  func(what string)
	// FrontendPort and UIPort of a server started here; 0 for free ones.
	FrontendPort, UIPort int

	// Exits says that this process ends when the session is closed.
	Exits bool

	Settings embedded.Settings // of a server started here, for tests
}

// Session is a process's connection to everything: Temporal and the store.
type Session struct {
	*connect.Connection
	Store *store.Store
	// Dir is the state folder, absolute.
	Dir string
	// Codec is that of payloads.
	Codec *codec.Codec
	// Log is what Temporal's client speaks to, for the worker of this process.
	Log *slog.Logger

	// Restored are the triggers that this process put back on a server that had lost them.
	Restored []string

	follower *holder.Follower // not nil with Options.Follow
	logFile  *os.File
}

// Open connects, starting a server where nobody runs one yet: see connect.Dial.
func Open(ctx context.Context, o Options) (_ *Session, err error) {
	o.StateDir = cmp.Or(o.StateDir, state.Dir)
	s := &Session{Log: o.Logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := state.Check(o.StateDir); err != nil {
		return nil, err
	}
	if s.Dir, err = filepath.Abs(o.StateDir); err != nil {
		return nil, err
	}
	if s.Log == nil {
		if s.Log, err = s.openLog(); err != nil {
			return nil, err
		}
	}
	if s.Store, err = state.OpenStore(ctx, s.Dir); err != nil {
		return nil, err
	}
	if o.Follow {
		if err := s.follow(ctx, o.Waiting); err != nil {
			return nil, err
		}
	}
	if s.Codec, err = codec.Open(os.Getenv(codec.KeysVariable), activities.Patient(s.Store)); err != nil {
		return nil, err
	}
	var measures client.MetricsHandler
	if o.Metrics != nil {
		measures = o.Metrics(s.Log)
	}
	s.Connection, err = connect.Dial(ctx, connect.Options{
		Dir: s.Dir, Logger: s.Log, Codec: s.Codec, FrontendPort: o.FrontendPort, UIPort: o.UIPort, ServerLogLevel: slog.LevelWarn,
		Python: cmp.Or(o.Python, state.FindPython()), PythonNamed: state.PythonNamed(), CreateNamespace: o.CreateNamespace, Metrics: measures, Settings: o.Settings,
		Patience: o.Patience, Waiting: o.Waiting, Exits: o.Exits,
	})
	if err != nil {
		return nil, err
	}
	if s.Holder != nil { // also where nothing works: what asks for the triggers must find them
		var failed error
		if s.Restored, failed = s.Schedules().Restore(ctx); failed != nil { // a trigger that cannot be put back keeps nothing else from running
			s.Log.Error("could not restore all triggers that the server had lost", "error", failed)
		}
	}
	return s, nil
}

// follow makes this process known as one that follows a run. One that leaves at this moment is waited for.
func (s *Session) follow(ctx context.Context, waiting func(what string)) (err error) {
	defer connect.TellSilent(ctx, s.Dir, waiting)()
	ctx, cancel := context.WithTimeoutCause(ctx, connect.Timeout, fmt.Errorf("the worker has not stopped within %v", connect.Timeout))
	defer cancel()
	s.follower, err = holder.Follow(ctx, s.Dir)
	return err
}

// Alone reports, of a session with Options.Follow, whether no other process follows a run. From then on none begins to until Close.
func (s *Session) Alone() (bool, error) { return s.follower.Alone() }

// openLog opens the log of this process's Temporal client and worker.
func (s *Session) openLog() (*slog.Logger, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("state folder %s cannot be created: %w: make its parent writable, or use another with --state", s.Dir, err)
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder %s is not writable: make it writable, or use another with --state: %w", s.Dir, holder.Explain(s.Dir, err))
	}
	s.logFile = f
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo})), nil
}

// Close closes the connection and, in the holder, stops the server and gives the folder free.
func (s *Session) Close() error {
	var errs []error
	if s.Connection != nil {
		errs = append(errs, s.Connection.Close())
	}
	if s.follower != nil { // after the folder is free, so that those who wait find it so
		errs = append(errs, s.follower.Close())
	}
	if s.logFile != nil {
		errs = append(errs, s.logFile.Close())
	}
	return errors.Join(errs...)
}
