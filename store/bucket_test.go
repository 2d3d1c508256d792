package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/store"
)

// behind starts an S3 server that answers what before does not: it returns true for a request it has dealt with.
func behind(t *testing.T, before func(w http.ResponseWriter, r *http.Request, inner http.Handler) bool) *s3test.Server {
	t.Helper()
	return s3test.Start(t, "acme", s3test.Options{Around: func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !before(w, r, inner) {
				inner.ServeHTTP(w, r)
			}
		})
	}})
}

func hang(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// said is an answer of S3's kind.
func said(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
}

var ifAbsent = store.WriteOptions{IfAbsent: true}

// TestBucketLostAnswer: whoever wrote an object that was absent has written it, also when the answer is lost and the SDK asks again.
func TestBucketLostAnswer(t *testing.T) {
	var lost atomic.Int64
	server := behind(t, func(w http.ResponseWriter, r *http.Request, inner http.Handler) bool {
		if r.Header.Get("If-None-Match") == "" || lost.Add(1) > 1 {
			return false
		}
		inner.ServeHTTP(httptest.NewRecorder(), r)
		hang(w)
		return true
	})
	t.Setenv("AWS_MAX_ATTEMPTS", "3")
	d := open(t, server.At("")).Driver()
	if err := d.Write(t.Context(), "seal/1", strings.NewReader("mine"), ifAbsent); err != nil || lost.Load() != 2 {
		t.Errorf("after %d attempts: %v", lost.Load(), err)
	}
	if err := d.Write(t.Context(), "seal/1", strings.NewReader("mine"), ifAbsent); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same again: %v, want ErrExists", err)
	}
}

// TestBucketContended: S3 refuses a conditional write while another one is under way, whichever comes of it.
func TestBucketContended(t *testing.T) {
	var asked atomic.Int64
	server := behind(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		contended := r.Header.Get("If-None-Match") != "" && asked.Add(1) <= 2
		if contended {
			said(w, http.StatusConflict, "ConditionalRequestConflict", "Wait.")
		}
		return contended
	})
	d := open(t, server.At("")).Driver()
	if err := d.Write(t.Context(), "k", strings.NewReader("all of it"), ifAbsent); err != nil {
		t.Fatal(err)
	}
	r, err := d.Read(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "all of it" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestBucketLarge: what is large travels in parts, and is there whole or not at all.
func TestBucketLarge(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/2) // 24 MiB
	var parts, aborted atomic.Int64
	var broken atomic.Bool
	server := behind(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		switch {
		case r.Method == http.MethodDelete && r.URL.Query().Has("uploadId"):
			aborted.Add(1)
		case r.URL.Query().Get("partNumber") != "" && parts.Add(1) == 2 && broken.Load():
			_, _ = io.CopyN(io.Discard, r.Body, 1<<20) // until the connection breaks
			hang(w)
			return true
		}
		return false
	})
	s := open(t, server.At("large"))
	there := func(want bool) {
		t.Helper()
		count := 0
		for _, err := range s.Driver().List(t.Context(), "") {
			if count++; err != nil {
				t.Fatal(err)
			}
		}
		if (count > 0) != want {
			t.Errorf("there are %d objects", count)
		}
	}
	broken.Store(true)
	if _, _, err := s.PutBlob(t.Context(), bytes.NewReader(content)); err == nil || aborted.Load() != 1 {
		t.Errorf("a broken connection: %v, %d uploads given up", err, aborted.Load())
	}
	there(false)
	broken.Store(false)
	lost := errors.New("the disk is gone")
	half := io.MultiReader(bytes.NewReader(content[:20<<20]), iotest.ErrReader(lost))
	if err := s.Driver().Write(t.Context(), "k", half, store.WriteOptions{}); !errors.Is(err, lost) || aborted.Load() != 2 {
		t.Errorf("half a source: %v, %d uploads given up", err, aborted.Load())
	}
	there(false)
	parts.Store(0)
	digest, size, err := s.PutBlob(t.Context(), bytes.NewReader(content))
	if err != nil || size != int64(len(content)) || parts.Load() != 3 {
		t.Fatalf("%d bytes in %d parts, %v", size, parts.Load(), err)
	}
	there(true)
	r, err := s.Blob(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); !bytes.Equal(got, content) || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestBucketBrokenRead: a reader goes on where it was, and with the same object or not at all.
func TestBucketBrokenRead(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	var cuts, reads atomic.Int64
	server := behind(t, func(w http.ResponseWriter, r *http.Request, inner http.Handler) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/k") {
			return false
		}
		if reads.Add(1); cuts.Add(-1) < 0 {
			return false
		}
		whole := httptest.NewRecorder()
		inner.ServeHTTP(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:1<<20])
		panic(http.ErrAbortHandler)
	})
	d := open(t, server.At("")).Driver()
	write := func(content string) {
		t.Helper()
		if err := d.Write(t.Context(), "k", strings.NewReader(content), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write(content)
	cuts.Store(2)
	r, err := d.Read(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != content || err != nil || reads.Load() != 3 {
		t.Errorf("read %d bytes in %d requests, %v", len(got), reads.Load(), err)
	}
	r.Close()

	cuts.Store(1)
	if r, err = d.Read(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	write(strings.ToUpper(content))
	if got, err := io.ReadAll(r); err == nil || len(got) != 1<<20 {
		t.Errorf("of two objects %d bytes were read, %v", len(got), err)
	}
}

// TestBucketFolder: a store sees its own folder of a bucket, and of that only what a store writes.
func TestBucketFolder(t *testing.T) {
	server := s3test.Start(t, "acme", s3test.Options{})
	for _, foreign := range []string{"a/", "a/not ours", "ab/k", "k"} {
		server.Put(t, foreign, "x")
	}
	d := open(t, server.At("a")).Driver()
	if err := d.Write(t.Context(), "k", strings.NewReader("x"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for info, err := range d.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if diff := cmp.Diff([]string{"k"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// TestBucketRefuses: what the server does not let one do is said with its type and with what to do.
func TestBucketRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		code, want string
		is         error
	}{
		"denied": {http.StatusForbidden, "AccessDenied", "write k in s3://acme/: not writable: the AWS credentials do not allow this: grant them s3:PutObject (No.)", store.ErrReadOnly},
		"full":   {http.StatusInsufficientStorage, "QuotaExceeded", "write k in s3://acme/: no space left: No.", store.ErrFull},
		"other":  {http.StatusBadRequest, "Strange", "write k in s3://acme/: Strange: No.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := behind(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if r.Method == http.MethodPut {
					said(w, test.status, test.code, "No.")
				}
				return r.Method == http.MethodPut
			})
			err := open(t, server.At("")).Driver().Write(t.Context(), "k", strings.NewReader("x"), store.WriteOptions{})
			if err == nil || err.Error() != test.want || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestOpenBucket: what keeps a store from being opened is said at once, and no secret with it.
func TestOpenBucket(t *testing.T) {
	server := s3test.Start(t, "acme", s3test.Options{})
	for name, test := range map[string]struct {
		url, want string
		env       map[string]string
	}{
		"no bucket":      {"s3://no-such-bucket?endpoint=" + server.URL, "there is no bucket no-such-bucket", nil},
		"no key":         {"s3://AKIA:hidden@acme/a", "there is a user or a password in it", nil},
		"no folder":      {"s3://acme/a b", `' ' is not allowed`, nil},
		"nobody there":   {"s3://acme?endpoint=http://127.0.0.1:1", "no response from http://127.0.0.1:1", nil},
		"no region":      {"s3://acme", "write ?region=eu-central-1, or set AWS_REGION", nil},
		"no credentials": {server.At(""), "there are no AWS credentials: set AWS_ACCESS_KEY_ID", map[string]string{"AWS_ACCESS_KEY_ID": ""}},
		"no driver":      {"ftp://acme", "use file:///an/absolute/folder, s3://bucket/folder or gs://bucket/folder", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			_, err := store.Open(t.Context(), test.url)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(fmt.Sprintf("%+v", err), "hidden") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := store.Open(ctx, server.At(""))
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutJSON(t.Context(), "k", 1, store.WriteOptions{}); err != nil {
		t.Errorf("the store does not outlive the context it was opened in: %v", err)
	}
}
