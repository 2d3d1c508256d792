package gateway

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/store"
)

func serveNothing(t *testing.T, ports Ports) (*Server, error) {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t.Context(), ports, Options{Store: s, Target: "m", Logger: slog.New(slog.DiscardHandler)})
}

// get asks over a connection of its own.
func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestServe(t *testing.T) {
	server, err := serveNothing(t, Ports{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, tc := range []struct {
		at       string
		status   int
		contains string
	}{
		{server.URL() + "/v2/health/live", 200, "true"},
		{server.URL() + "/sluice/v1/targets/m", 404, "/v2/models/m"},
		{server.URL() + "/sluice/v1/targets/m/stats", 404, "/v2/models/m"},
		{server.URL() + "/metrics", 404, "/v2/models/m"},
		{server.ControlURL() + "/sluice/v1/targets/m", 200, `"target":"m"`},
		{server.ControlURL() + "/sluice/v1/targets/m/stats", 200, `"target":"m"`},
		{server.MetricsURL(), 200, "sluice_routing_revision"},
		{server.ControlURL() + "/metrics", 404, ""},
		{server.ControlURL() + "/v2/models/m", 404, ""},
	} {
		if status, body := get(t, tc.at); status != tc.status || !strings.Contains(body, tc.contains) {
			t.Errorf("%s: %d %s, want %d with %q", tc.at, status, body, tc.status, tc.contains)
		}
		if address, err := url.Parse(tc.at); err != nil || address.Hostname() != "127.0.0.1" {
			t.Errorf("%s is not on loopback: %v", tc.at, err)
		}
	}
}

// A gateway that listens on all addresses has its models there. Control stays on one, of loopback.
// TestServeByName: on loopback, the model is not read under another name; on other addresses names are the user's.
func TestServeByName(t *testing.T) {
	for host, status := range map[string]int{"": 403, "0.0.0.0": 404} {
		server, err := serveNothing(t, Ports{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "example.com"
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("on %q: status %d, want %d", host, resp.StatusCode, status)
		}
	}
}

func TestServeOnAllAddresses(t *testing.T) {
	server, err := serveNothing(t, Ports{Host: "0.0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for at, reached := range map[string]bool{server.URL(): true, server.ControlURL(): false, server.MetricsURL(): false} {
		address, err := url.Parse(at)
		if err != nil || address.Hostname() != "127.0.0.1" {
			t.Errorf("%s is not what this machine reaches: %v", at, err)
		}
		conn, err := net.Dial("tcp", "127.0.0.2:"+address.Port())
		if (err == nil) != reached {
			t.Errorf("%s at another address: %v, want it reached: %v", at, err, reached)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// A gateway that cannot have both ports takes none, and names the key of the one that it cannot have.
func TestServeOnAPortInUse(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	for key, ports := range map[string]Ports{"`port`": {Model: taken}, "`metrics_port`": {Metrics: taken}, "`admin_port`": {Control: taken}} {
		_, err := serveNothing(t, ports)
		if !errors.Is(err, ErrPortInUse) {
			t.Fatalf("%s: got %v, want ErrPortInUse", key, err)
		}
		for _, want := range []string{"target m cannot listen on 127.0.0.1:" + strconv.Itoa(taken), key} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q in it", err, want)
			}
		}
	}
}
