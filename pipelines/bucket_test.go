package pipelines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/s3test"
)

// s3Server is an S3 server with one bucket.
type s3Server struct {
	*s3test.Server
	// got counts the objects asked for, and then is called before one is handed out.
	got  atomic.Int64
	then func(key string)
}

func newS3(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{}
	s.Server = s3test.Start(t, "acme", s3test.Options{Around: func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key, ok := strings.CutPrefix(r.URL.Path, "/acme/"); ok && key != "" && r.Method == http.MethodGet {
				if s.got.Add(1); s.then != nil {
					s.then(key)
				}
			}
			inner.ServeHTTP(w, r)
		})
	}})
	return s
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const fromJSON = "- {type: ReadFromJson, config: {path: [INPUT]}}\n- {type: WriteToJson}"

// TestReadBucket: objects are read as files are, with the same result.
func TestReadBucket(t *testing.T) {
	server := newS3(t)
	many := strings.Join(manyRows(120_000), "") // larger than a unit of work
	files := map[string]string{"in/a.jsonl": many, "in/deep/er/b.jsonl.gz": gzipped(t, `{"id": -1}`+"\n"), "in/empty.jsonl": ""}
	for key, text := range files {
		server.Put(t, key, text)
	}
	server.Put(t, "in/deep/other.txt", "no row")
	server.Put(t, "inner/c.jsonl", "no row")
	for _, hidden := range []string{"in/.a.jsonl", "in/deep/._b.jsonl", "in/.deep/c.jsonl"} {
		server.Put(t, hidden, "no row")
	}
	far := job(t.TempDir(), chain(t, server.At("in/**/*.jsonl*"), fromJSON))
	out := mustRun(t, far)
	if want := (spec.Rows{Read: 120_001, Kept: 120_001}); out.Rows != want {
		t.Errorf("got %+v, want %+v", out.Rows, want)
	}
	near := job(t.TempDir(), chain(t, filepath.Join(write(t, files), "in/**/*.jsonl*"), fromJSON))
	mustRun(t, near)
	if treeDigest(t, far.OutputDir) != treeDigest(t, near.OutputDir) {
		t.Error("the dataset is another one than that of the same files on this machine")
	}
}

// TestReadBucketParquet: of a Parquet file only ranges are read.
func TestReadBucketParquet(t *testing.T) {
	server := newS3(t)
	input := write(t, map[string]string{"in.jsonl": strings.Join(manyRows(2000), "")})
	local := job(t.TempDir(), chain(t, input+"/*", "- {type: ReadFromJson, config: {path: INPUT}}\n- {type: WriteToParquet}"))
	mustRun(t, local)
	content, err := os.ReadFile(filepath.Join(local.OutputDir, "all", "part-00000-of-00001.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	server.Put(t, "p/a.parquet", string(content))
	far := job(t.TempDir(), chain(t, server.At("p/*.parquet"), "- {type: ReadFromParquet, config: {path: INPUT}}\n- {type: WriteToJson}"))
	if out := mustRun(t, far); out.Rows != (spec.Rows{Read: 2000, Kept: 2000}) {
		t.Errorf("%+v, %v", out.Rows, out.Reasons)
	}
	if n := server.got.Load(); n > 20 {
		t.Errorf("a file of %d bytes took %d requests", len(content), n)
	}
}

// TestBucketChanges: an object that is another one than was listed is not read.
func TestBucketChanges(t *testing.T) {
	server := newS3(t)
	server.Put(t, "in/a.jsonl", `{"id": 1}`+"\n")
	var once atomic.Bool
	server.then = func(key string) {
		if once.CompareAndSwap(false, true) {
			server.Put(t, key, `{"id": 2}`+"\n") // of the same size
		}
	}
	j := job(t.TempDir(), chain(t, server.At("in/*"), fromJSON))
	_, err := run(t, j)
	if errorType(err) != fault.User || !strings.Contains(err.Error(), "s3://acme/in/a.jsonl has been changed or removed since it was listed") {
		t.Errorf("%v", err)
	}
}

func TestBucketErrors(t *testing.T) {
	server := newS3(t)
	tests := map[string]struct{ path, typ, want string }{
		"nothing":    {server.At("none/*"), fault.User, "no file matches s3://acme/none/*"},
		"no bucket":  {"s3://other/a?endpoint=" + server.URL, fault.Invalid, "list s3://other/"},
		"no key":     {"s3://acme", fault.Invalid, "write s3://BUCKET/PATTERN"},
		"an option":  {"s3://acme/a?.json", fault.Invalid, `".json" is not an option of a bucket`},
		"a scheme":   {"https://acme/a.json", fault.Invalid, "only folders, s3:// and gs://"},
		"a pattern":  {server.At("a/["), fault.Invalid, "syntax error in pattern"},
		"a server":   {"s3://acme/a?endpoint=http://127.0.0.1:1", fault.Infrastructure, "list s3://acme/"},
		"no options": {"gs://acme/a?region=x", fault.Invalid, `"region" is not an option of a bucket: the options are anonymous`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, job(t.TempDir(), chain(t, test.path, fromJSON)))
			if errorType(err) != test.typ || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", errorType(err), err)
			}
		})
	}
}

// TestReadGoogle: objects of Google's storage are read in the generation that was listed.
func TestReadGoogle(t *testing.T) {
	objects := map[string]string{"in/a.jsonl": `{"id": 1}` + "\n", "in/b.txt": "no row"}
	var asked atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/storage/v1/b/acme/o") {
			items := []map[string]string{}
			for key, text := range objects {
				if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
					items = append(items, map[string]string{"name": key, "bucket": "acme", "size": strconv.Itoa(len(text)), "generation": "17"})
				}
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items})
			return
		}
		asked.Store(r.URL.Query().Get("generation"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(objects[strings.TrimPrefix(r.URL.Path, "/acme/")]))
	}))
	t.Cleanup(web.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(web.URL, "http://"))
	j := job(t.TempDir(), chain(t, "gs://acme/in/*.jsonl?anonymous=true", fromJSON))
	if out := mustRun(t, j); out.Rows != (spec.Rows{Read: 1, Kept: 1}) {
		t.Errorf("%+v", out.Rows)
	}
	if diff := cmp.Diff("17", fmt.Sprint(asked.Load())); diff != "" {
		t.Error(diff)
	}
}
