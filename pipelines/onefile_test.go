package pipelines_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/pipelines"
)

// A compressed file is read by one worker, which puts marks aside when it has many. The rows are the same as those of a file that
// several share, whether or not what is made of it is to be kept.
func TestManyRowsOfOneFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it cleans a million rows")
	}
	const rows = 700_000
	var text, packed bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&text, "%d\n", i%(rows-1000))
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	clean := func(content, cache string) string {
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, map[string]string{"in.txt": content}), `
- {type: ReadFromText, config: {path: INPUT/*}}
- {type: Deduplicate}
- {type: WriteToJson, config: {shards: 2}}
`))
		j.ProfileFile = filepath.Join(dir, "profile.json")
		j.Cache = pipelines.Cache{Dir: cache, Limit: 1 << 30}
		out := mustRun(t, j)
		if out.Rows.Read != rows || out.Rows.Kept != rows-1000 || out.Rows.Reused != 0 {
			t.Errorf("got %+v", out.Rows)
		}
		return treeDigest(t, dir)
	}
	want := clean(text.String(), "")
	for _, cache := range []string{"", t.TempDir()} {
		if got := clean(packed.String(), cache); got != want {
			t.Errorf("with the cache %q the digest is %s, want %s", cache, got, want)
		}
	}
}
