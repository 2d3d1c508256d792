// Package s3test is an S3 server in the process of a test. Conditional writes of single requests are atomic in it; of multipart uploads it
// does not know them.
package s3test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Server has one bucket.
type Server struct {
	// URL is the server's address.
	URL    string
	bucket string
}

// Options say how a server differs from an ordinary one.
type Options struct {
	// Clock gives objects their times.
	Clock gofakes3.TimeSource
	// Around stands before the server.
	Around func(inner http.Handler) http.Handler
}

// Start starts a server for as long as a test runs, and keeps the SDK of this process to it: see Environment.
func Start(t *testing.T, bucket string, o Options) *Server {
	t.Helper()
	Environment(t)
	clock := o.Clock
	if clock == nil {
		clock = gofakes3.DefaultTimeSource()
	}
	backend := s3mem.New(s3mem.WithTimeSource(clock))
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend, gofakes3.WithTimeSource(clock), gofakes3.WithTimeSkewLimit(0)).Server()
	if o.Around != nil {
		handler = o.Around(handler)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return &Server{URL: web.URL, bucket: bucket}
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
