package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
)

type sale struct {
	Price int64     `parquet:"price,decimal(2:10)"`
	At    time.Time `parquet:"at,timestamp"`
	Name  string    `parquet:"name"`
	N     uint64    `parquet:"n"`
	Tags  []string  `parquet:"tags,list"`
	Inner struct {
		A int32 `parquet:"a"`
	} `parquet:"inner"`
}

// TestColumns: expressions over rows are checked against the columns of the files that are in the pipeline's folder.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data/a.parquet", "year=2024/b.parquet"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := parquet.WriteFile(filepath.Join(dir, name), []sale{{Price: 1099}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := parquet.WriteFile(filepath.Join(dir, "other.parquet"), []struct {
		Price string `parquet:"price"`
		More  bool   `parquet:"more"`
	}{{}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.parquet"), []byte("PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, keep, want string }{
		{"data/*.parquet", `row.price > 9.99 && row.at > timestamp("2024-01-01T00:00:00Z") && row.n > 1u && row.inner.a == 1 && "x" in row.tags`, ""},
		{"data/*.parquet", `row.name != null && row.name.size() > 1 && null != row.n && row.n in [1, 2] && row.tags != null && row.price in [1, 2]`, ""},
		{"data/*.parquet", `row.price > row.name`, "decimal, string"},
		{"data/*.parquet", `row.at == "2024-01-01"`, "timestamp, string"},
		{"data/*.parquet", `row.prise > 1`, "price"},
		{"data/*.parquet", `row.tags.size() > 1 && row.tags[0] == 1`, "string, int"},
		{"year=*/*.parquet", `row.year == 2024 && row.price > 1`, ""},
		{"[data/a.parquet, other.parquet]", `row.price == "x" || row.more`, ""},
		{"[data/a.parquet, other.parquet]", `row.name > 1`, "string, int"},
		{"broken.parquet", `row.name > 1`, ""},
		{"none/*.parquet", `row.name > 1`, ""},
		{"../*/data/*.parquet", `row.name > 1`, ""},
	} {
		pipeline := filepath.Join(dir, "p.yaml")
		text := "sluice: pipeline/v1\nname: p\nsteps:\n  sales:\n    clean:\n      transforms:\n        - {type: ReadFromParquet, config: {path: " + test.path + "}}\n" +
			"        - {type: Filter, config: {keep: '" + test.keep + "'}}\n        - {type: WriteToParquet}\n"
		folder, err := OpenFolder(pipeline, document.File{})
		if err != nil {
			t.Fatal(err)
		}
		_, found := dsl.Compile(document.File{Name: pipeline, Source: []byte(text)}, document.File{}, folder)
		if got := found.Text(false); (len(found) == 0) != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s over %s, want %q:\n%s", test.keep, test.path, test.want, got)
		}
	}
}
