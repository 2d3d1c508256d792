package watch

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/s3test"
)

// s3Server is an S3 server with a clock that stands still and one bucket.
type s3Server struct {
	*s3test.Server
	// asked counts the requests for lists.
	asked atomic.Int64
}

const testBucket = "acme-mail"

func newS3(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{}
	s.Server = s3test.Start(t, testBucket, s3test.Options{
		Time: began,
		Around: func(inner http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("list-type") == "2" {
					s.asked.Add(1)
				}
				inner.ServeHTTP(w, r)
			})
		},
	})
	return s
}

// TestDataS3: what settles in turn in a bucket. An object that is written anew is a new version even when neither its size nor its time
// differ, and none when it is the same to the byte.
func TestDataS3(t *testing.T) {
	server := newS3(t)
	w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: server.At("in"), Glob: "*.csv", Settle: minute, Every: minute}})
	for _, other := range []string{"in/a.tmp", "in/folder.csv/", "inner/c.csv", "d.csv"} {
		server.Put(t, other, "")
	}
	server.Put(t, "in/a.csv", "1")
	step := func(want ...string) {
		t.Helper()
		look := w.look(t, 3)
		for i := range want {
			want[i] = "s3://" + testBucket + "/" + want[i]
		}
		if diff := cmp.Diff(want, look.Trigger.Files); diff != "" {
			t.Fatalf("at %s the run %q is for (-want +got):\n%s", w.now.Sub(began), look.Run, diff)
		}
		w.now = w.now.Add(time.Minute)
	}
	step() // just seen
	server.Put(t, "in/deep/b.csv", "1")
	server.Put(t, "in/a.csv", "2") // still being written
	step()
	step("in/a.csv", "in/deep/b.csv")
	step()
	server.Put(t, "in/deep/b.csv", "3")
	server.Put(t, "in/a.csv", "2") // as it is
	step()
	step("in/deep/b.csv")
	step()
	if first := w.started[0]; !strings.HasPrefix(first.Run, "spam-t-") || first.Trigger.Kind != "data" || len(w.started) != 2 {
		t.Errorf("started %+v", w.started)
	}
}

// TestDataS3Pages: more objects than an answer holds are all found, and each starts one run with the others, in parts.
func TestDataS3Pages(t *testing.T) {
	server := newS3(t)
	var want []string
	for i := range 2345 {
		key := fmt.Sprintf("in/%04d", i)
		server.Put(t, key, "x")
		want = append(want, "s3://"+testBucket+"/"+key)
	}
	sp := spec.DataTrigger{URL: server.At("in/"), Settle: second, Every: second}
	found, err := listObjects(t.Context(), sp)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if asked := server.asked.Load(); asked != 3 {
		t.Errorf("%d requests for 2,345 objects", asked)
	}
	w := watch(t, spec.Trigger{Data: &sp})
	for range 6 {
		w.look(t, 3)
		w.now = w.now.Add(time.Second)
	}
	var got []string
	for _, look := range w.started {
		got = append(got, look.Trigger.Files...)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(w.started) != 3 {
		t.Errorf("%d runs, for (-want +got):\n%s", len(w.started), diff)
	}
	if whole, err := listObjects(t.Context(), spec.DataTrigger{URL: server.At(""), Glob: "in/000?"}); len(whole) != 10 || err != nil {
		t.Errorf("%d objects of the whole bucket, %v", len(whole), err)
	}
}

// TestDataS3Environment: the server and the region may be the worker's to say, and the address comes first.
func TestDataS3Environment(t *testing.T) {
	server := newS3(t)
	server.Put(t, "in/a", "1")
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	if found, err := listObjects(t.Context(), spec.DataTrigger{URL: "s3://acme-mail/in"}); len(found) != 1 || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	if found, err := listObjects(t.Context(), spec.DataTrigger{URL: server.At("in")}); len(found) != 1 || err != nil {
		t.Errorf("against the environment: found %v, %v", found, err)
	}
}

// said is a handler that gives one answer of S3's kind.
func said(status int, code, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
	}
}

// TestDataS3Errors: what is wrong is said with its type and with what to do, and never with a secret.
func TestDataS3Errors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		typ    string
		want   string
	}{
		{"denied", said(403, "AccessDenied", "Access Denied"), fault.Invalid, "grant them s3:ListBucket (Access Denied)"},
		{"key", said(403, "InvalidAccessKeyId", "It is not there."), fault.Invalid, "credentials were rejected as InvalidAccessKeyId"},
		{"token", said(400, "ExpiredToken", "It has expired."), fault.Invalid, "rejected as ExpiredToken (It has expired.)"},
		{
			"elsewhere", said(301, "PermanentRedirect", "Go away.", "X-Amz-Bucket-Region", "eu-west-3", "Location", "http://127.0.0.1:1/"),
			fault.Invalid, "the bucket is in the region eu-west-3: write ?region=eu-west-3",
		},
		{"redirect", said(301, "PermanentRedirect", "Ask there."), fault.Invalid, "in another region: write ?region= (Ask there.)"},
		{"broken", said(500, "InternalError", strings.Repeat("x", 1<<20)), fault.Infrastructure, "InternalError: xxx"},
		{"no S3", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>Log in") }, fault.Infrastructure, "does not answer like an S3 server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s3test.Environment(t)
			web := httptest.NewServer(tt.answer)
			defer web.Close()
			checkFault(t, "s3://acme-mail/in?endpoint="+web.URL, tt.typ, tt.want)
		})
	}
	t.Run("no bucket", func(t *testing.T) {
		server := newS3(t)
		checkFault(t, "s3://no-such-bucket/in?endpoint="+server.URL, fault.Invalid, "there is no bucket no-such-bucket")
	})
	t.Run("no region", func(t *testing.T) {
		s3test.Environment(t)
		checkFault(t, "s3://acme-mail/in", fault.Invalid, "write ?region=eu-central-1, or set AWS_REGION")
	})
	t.Run("no credentials", func(t *testing.T) {
		server := newS3(t)
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		checkFault(t, server.At("in"), fault.Infrastructure, "no AWS credentials: set AWS_ACCESS_KEY_ID")
	})
	t.Run("no profile", func(t *testing.T) {
		s3test.Environment(t)
		t.Setenv("AWS_PROFILE", "nobody")
		checkFault(t, "s3://acme-mail/in?region=auto", fault.Invalid, "AWS configuration cannot be used: ")
	})
	t.Run("nobody there", func(t *testing.T) {
		s3test.Environment(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		url := "http://" + listener.Addr().String()
		checkFault(t, "s3://acme-mail/in?endpoint="+url, fault.Infrastructure, "no response from "+url)
	})
}

func checkFault(t *testing.T, url, typ, want string) {
	t.Helper()
	_, err := listObjects(t.Context(), spec.DataTrigger{URL: url})
	message := fault.Message(err)
	if fault.TypeOf(err) != typ || !strings.Contains(message, want) || !strings.Contains(message, url) || len(message) > 800 {
		t.Errorf("got %s error %q, want %s with %q", fault.TypeOf(err), message, typ, want)
	}
	if strings.Contains(fmt.Sprintf("%+v", err), "hidden") {
		t.Error("the error has the secret key in it")
	}
}

// TestDataS3Endless: neither a list without an end, nor an answer without one, nor a server that says nothing is waited for.
func TestDataS3Endless(t *testing.T) {
	type object struct {
		Key, LastModified string
		Size              int
	}
	type page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []object
	}
	var asked atomic.Int64
	list := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		p := page{IsTruncated: true, NextContinuationToken: "more"}
		for i := range 1000 {
			p.Contents = append(p.Contents, object{Key: fmt.Sprintf("%d-%d", asked.Load(), i), LastModified: "2026-01-02T03:00:00.000Z"})
		}
		asked.Add(1)
		if err := xml.NewEncoder(w).Encode(p); err != nil {
			t.Error(err)
		}
	}
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		io.WriteString(w, "<ListBucketResult>")
		for {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"list", list, "more than 100,000 objects: narrow the selection"},
		{"answer", answer, "EOF"},
		{"silence", silence, context.DeadlineExceeded.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s3test.Environment(t)
			web := httptest.NewServer(tt.answer)
			defer web.Close()
			patience := 30 * time.Second
			if tt.name == "silence" {
				patience = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := listObjects(ctx, spec.DataTrigger{URL: "s3://acme-mail?endpoint=" + web.URL})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if got := asked.Load(); got != 101 {
		t.Errorf("%d pages were asked for", got)
	}
}
