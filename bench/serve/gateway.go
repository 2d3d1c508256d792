package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/embedded"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// modelName is the name of the target, and so of the model.
const modelName = "mlp"

// serveModel is the process of a gateway: it releases a model, says where it serves it, and ends with standard input.
func serveModel(ctx context.Context, model string, maxBatch int) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, "file://"+filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	target := *spec.DefaultEnvironment().Targets["local"].Embedded
	target.Batching.MaxBatch = cmp.Or(maxBatch, target.Batching.MaxBatch)
	server, err := embedded.Serve(ctx, s, modelName, target, gateway.Ports{}, filepath.Join(dir, "models"), filepath.Join(dir, "trials"), "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = server.Close(ctx) // what was measured stands
	}()
	ref, err := s.PutTree(ctx, artifact.Model, model, nil, nil)
	if err != nil {
		return err
	}
	to := gateway.NewTarget(s, modelName, server.URL(), server.ControlURL())
	doc, release, err := to.Load(ctx, 0, routing.Release{Model: ref, Run: "bench", Step: "ship"}, nil)
	if err != nil {
		return err
	}
	if _, err := to.SetTraffic(ctx, doc.Revision, gateway.Split{Weights: map[string]float64{release.Version: 1}}); err != nil {
		return err
	}
	fmt.Println(server.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serveHTTP is the process of a server that reads requests and sends a text back, and ends with standard input.
func serveHTTP(ctx context.Context, text string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: answerWithin, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client notices
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	})}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println("http://" + listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withGateway does something with a gateway in a process of its own, at a URL.
func withGateway(ctx context.Context, m mlp, maxBatch int, do func(url string) error) error {
	return withServer(ctx, do, "-serve", m.dir, "-max-batch", strconv.Itoa(maxBatch))
}

// withServer does something with this program started as a server, which says its URL.
func withServer(ctx context.Context, do func(url string) error, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		err = do(strings.TrimSpace(url))
	}
	return errors.Join(err, stdin.Close(), cmd.Wait())
}
