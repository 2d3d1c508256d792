package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/store"
)

// TestCodecServe asks the codec server what the pages of two origins ask.
func TestCodecServe(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(codec.NewKey(time.Now())), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(state.StoreVariable, "file://"+filepath.Join(dir, "store"))
	t.Setenv(codec.KeysVariable, keys)
	address := serveInBackground(t, "codec", "serve", "--port", "0", "--origin", "https://ui.example.com")

	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("it listens at %s, want this machine alone", address)
	}
	s, err := store.Open(t.Context(), os.Getenv(state.StoreVariable))
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.Open(keys, s)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := c.DataConverter().ToPayload("hello")
	if err != nil {
		t.Fatal(err)
	}
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{sealed}})
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]int{"https://ui.example.com": http.StatusOK, "https://evil.example.com": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/decode", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Origin", origin)
		request.Header.Set("X-Namespace", "default")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Fatalf("%s: %s %s, %v", origin, response.Status, answer, err)
		}
		var got commonpb.Payloads
		if want == http.StatusOK && (protojson.Unmarshal(answer, &got) != nil || string(got.GetPayloads()[0].GetData()) != `"hello"` || proto.Equal(got.GetPayloads()[0], sealed)) {
			t.Errorf("decoded: %s", answer)
		}
	}
}

// serveInBackground runs a command that says where it serves until the test ends, and returns the address.
func serveInBackground(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		done <- execute(ctx, args, strings.NewReader(""), in, &stderr)
		in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case code := <-done:
			if code != kit.ExitOK {
				t.Errorf("exit code %d: %s", code, &stderr)
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	go io.Copy(io.Discard, out) // keeps the pipe from filling
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, ";")
	return "http://" + address
}
