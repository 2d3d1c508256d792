// Package promtest is a real Prometheus server for tests.
package promtest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// Start runs a server without anything to scrape until the end of the test, and returns its address. Where Prometheus is not installed, the
// test is skipped as rig says.
func Start(t *testing.T) string {
	t.Helper()
	binary, err := rig.Installed("prometheus", "prometheus")
	if err != nil {
		rig.Skip(t, err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("scrape_configs: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := proc.FreePort(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	server := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have ended
		_ = server.Wait()         // as it was killed
	})
	base, began := "http://"+address, time.Now()
	for range poll.Every(t.Context(), 50*time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/-/ready", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return base
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatal("Prometheus is not ready within a minute")
		}
	}
	return ""
}
