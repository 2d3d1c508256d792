package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

func TestOpenRefusesOtherAddresses(t *testing.T) {
	for _, url := range []string{"", "/a/folder", "file://relative", "file:/a", "http://x"} {
		if _, err := store.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "use file:///") {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

func TestOpenTwiceIsOneStore(t *testing.T) {
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			url := address(t)
			first, second := open(t, url), open(t, url)
			if err := first.PutJSON(t.Context(), "runs/r/run.json", "x", store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := second.GetJSON(t.Context(), "runs/r/run.json", &got); err != nil || got != "x" {
				t.Errorf("got %q, %v", got, err)
			}
			if second.URL() != url {
				t.Errorf("URL is %q, want %q", second.URL(), url)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	type record struct {
		Name  string   `json:"name"`
		Steps []string `json:"steps"`
	}
	s := open(t, "mem://"+t.TempDir())
	want := record{Name: "<a & b>", Steps: []string{"mail", "fit"}}
	if err := s.PutJSON(t.Context(), "runs/r/run.json", want, store.WriteOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutJSON(t.Context(), "runs/r/run.json", record{}, store.WriteOptions{IfAbsent: true}); !errors.Is(err, store.ErrExists) {
		t.Errorf("second write: got %v, want ErrExists", err)
	}
	var got record
	if err := s.GetJSON(t.Context(), "runs/r/run.json", &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if err := s.GetJSON(t.Context(), "runs/none", &got); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("absent: got %v, want ErrNotFound", err)
	}
	if err := s.PutJSON(t.Context(), "k", func() {}, store.WriteOptions{}); err == nil {
		t.Error("a function was stored as JSON")
	}
	if err := s.Driver().Write(t.Context(), "broken", strings.NewReader(`{"name":`), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.GetJSON(t.Context(), "broken", &got); err == nil || !strings.Contains(err.Error(), "read broken") {
		t.Errorf("broken: got %v", err)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	const limit = 64 << 20
	s := open(t, "mem://"+t.TempDir())
	if err := s.PutJSON(t.Context(), "k", strings.Repeat("x", limit-1), store.WriteOptions{}); err == nil || !strings.Contains(err.Error(), "67108865 bytes") {
		t.Errorf("write: got %v", err)
	}
	if err := s.Driver().Write(t.Context(), "k", bytes.NewReader(make([]byte, limit+2)), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := s.GetJSON(t.Context(), "k", &got); err == nil || !strings.Contains(err.Error(), "more than the 67108864 bytes") {
		t.Errorf("read: got %v", err)
	}
}

func TestBlobs(t *testing.T) {
	const ofNothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			s := open(t, address(t))
			// One byte around the size from which a blob goes through a file.
			for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
				want := bytes.Repeat([]byte("x"), size)
				digest, n, err := s.PutBlob(t.Context(), iotest.HalfReader(bytes.NewReader(want)))
				if err != nil {
					t.Fatal(err)
				}
				if n != int64(size) || (size == 0) != (digest == ofNothing) {
					t.Errorf("%d bytes were stored as %d of %s", size, n, digest)
				}
				r, err := s.Blob(t.Context(), digest)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(r)
				r.Close()
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
				}
			}
		})
	}
}

func TestDamagedBlob(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.TrimPrefix(digest, "sha256:")
	if err := s.Driver().Write(t.Context(), "blobs/"+sum[:2]+"/"+sum, strings.NewReader("c0ntents"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Blob(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("read: got %v, want ErrCorrupt", err)
	}
	r.Close()
	// What has another size than it should is seen without reading it, and replaced.
	if _, _, err := s.PutBlob(t.Context(), strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	r, err = s.Blob(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "content" {
		t.Errorf("after it was stored again: %q, %v", got, err)
	}
	r.Close()
}

func TestBlobErrors(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	for _, digest := range []string{"", "sha256:", "sha256:abc", "md5:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("/", 64)} {
		if _, err := s.Blob(t.Context(), digest); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: got %v, want an error about its form", digest, err)
		}
	}
	if _, err := s.Blob(t.Context(), "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("absent: got %v, want ErrNotFound", err)
	}
	broken := errors.New("the network is down")
	large := bytes.NewReader(make([]byte, 2<<20))
	for _, r := range []io.Reader{iotest.ErrReader(broken), io.MultiReader(large, iotest.ErrReader(broken))} {
		if _, _, err := s.PutBlob(t.Context(), r); !errors.Is(err, broken) {
			t.Errorf("got %v, want the reader's error", err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.PutBlob(canceled, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
}
