package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/proc"
)

const (
	// source has MLServer's settings, its model class and the versions of its packages.
	source     = "bench/serve/peers/mlserver"
	startLimit = time.Minute
	against    = "mlserver 1.7.1"
)

// compareMLServer measures MLServer, and ours before and after it.
func compareMLServer(ctx context.Context, m mlp) error {
	home, err := compare.Install(ctx, "mlserver", source, compare.Python)
	if err != nil {
		return fmt.Errorf("it cannot be installed: %w", err)
	}
	var ours, theirs []float64
	measure := func(into *[]float64) func(string) error {
		return func(url string) error {
			rest, err := overREST(url, m)
			if err != nil {
				return err
			}
			l, err := closedLoop(ctx, clients, rest)
			*into = append(*into, l.rate())
			return err
		}
	}
	for range rounds {
		if err := withGateway(ctx, m, 0, measure(&ours)); err != nil {
			return err
		}
		if err := withMLServer(ctx, home, m, measure(&theirs)); err != nil {
			return err
		}
	}
	return compare.Show(rounds,
		compare.Figure{Name: "serve/rps", Value: compare.Median(ours), Unit: "1/s"},
		compare.Figure{Name: "serve/mlserver_rps", Value: compare.Median(theirs), Unit: "1/s", Against: against},
		compare.Figure{Name: "serve/vs_mlserver", Value: compare.Median(ours) / compare.Median(theirs), Unit: "ratio", Against: against},
	)
}

// withMLServer does something with MLServer at a URL.
func withMLServer(ctx context.Context, home string, m mlp, do func(url string) error) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ports := make([]string, 3)
	for i := range ports {
		if ports[i], err = freePort(ctx); err != nil {
			return err
		}
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = compare.Run(serving, proc.Command{
			Path: filepath.Join(home, "venv/bin/mlserver"), Args: []string{"start", home}, Dir: dir,
			Env: []string{
				"PATH=" + filepath.Join(home, "venv/bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "PYTHONPATH=" + home,
				"MLSERVER_HTTP_PORT=" + ports[0], "MLSERVER_GRPC_PORT=" + ports[1], "MLSERVER_METRICS_PORT=" + ports[2], "MLP_FILE=" + m.file(),
			},
		})
	}()
	url := "http://127.0.0.1:" + ports[0]
	if err = untilReady(ctx, url, ended); err == nil {
		err = do(url)
	}
	stop()
	<-ended
	if err != nil {
		return errors.Join(err, failed)
	}
	return nil
}

func untilReady(ctx context.Context, url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("it is not ready in time"))
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v2/models/"+modelName+"/ready", nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close() // its status is all that counts
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), l.Close()
}
