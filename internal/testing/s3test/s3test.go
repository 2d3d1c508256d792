// Package s3test is an S3 server for tests: the program of tools/s3, a process for each server. Conditional writes of single requests are
// atomic in it; of multipart uploads it does not know them.
package s3test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// startLimit bounds the start of the server, which takes milliseconds on an idle machine.
const startLimit = time.Minute

// Server has one bucket.
type Server struct {
	// URL is the server's address.
	URL    string
	bucket string
}

// Options say how a server differs from an ordinary one.
type Options struct {
	// Time is that of the server's clock, which then stands still; zero is the machine's clock.
	Time time.Time
	// Around stands before the server, in this process.
	Around func(inner http.Handler) http.Handler
}

// Start starts a server for as long as a test runs, and keeps the SDK of this process to it: see Environment.
func Start(t *testing.T, bucket string, o Options) *Server {
	t.Helper()
	Environment(t)
	program, err := rig.Program("s3", "s3")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-bucket=" + bucket}
	if !o.Time.IsZero() {
		args = append(args, "-time="+o.Time.Format(time.RFC3339Nano))
	}
	s := &Server{URL: run(t, program, args), bucket: bucket}
	if o.Around != nil {
		s.URL = front(t, s.URL, o.Around)
	}
	return s
}

// run starts the program, until the test ends, and returns its address.
func run(t *testing.T, program string, args []string) string {
	t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	said := proc.NewTail(10)
	// Not in the test's context: what is cleaned up after that may need the server.
	p, err := proc.Start(context.WithoutCancel(t.Context()), proc.Command{
		Path: program, Args: args, Stdout: theirs, Stderr: said,
		Env: []string{}, // tests find what they have started by its environment
	})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		p.Kill()
		_, _ = p.Wait() // it was killed
	}
	t.Cleanup(stop)
	if err := ours.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(ours).ReadString('\n')
	if err != nil {
		stop() // it has said all then
		t.Fatalf("%s gives no address: %v\n%s", program, err, said)
	}
	return strings.TrimSpace(address)
}

// front serves, until the test ends, what around makes of the server.
func front(t *testing.T, address string, around func(inner http.Handler) http.Handler) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(around(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{DisableCompression: true}, // which adds no header
		// A client that goes is nothing to talk about, and a server that does breaks the connection, as it would without a proxy.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// Environment keeps AWS's SDK to what a test says: credentials, nothing of this machine's, and one attempt.
func Environment(t *testing.T) {
	t.Helper()
	nowhere := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": nowhere, "AWS_SHARED_CREDENTIALS_FILE": nowhere, "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_CA_BUNDLE": "", "AWS_MAX_ATTEMPTS": "1",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		t.Setenv(name, value)
	}
}

// At is the address of a folder, or of a pattern, in the bucket.
func (s *Server) At(path string) string {
	return "s3://" + s.bucket + "/" + path + "?endpoint=" + s.URL
}

// Put makes an object.
func (s *Server) Put(t *testing.T, key, content string) {
	t.Helper()
	// Not in the test's context: it may be ending.
	req, err := http.NewRequest(http.MethodPut, s.URL+"/"+s.bucket+"/"+key, strings.NewReader(content)) //nolint:noctx // see above
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("put %s: %s, %s", key, resp.Status, said)
	}
}
