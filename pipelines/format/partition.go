package format

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Partition is a column whose value is in the path of a file, as Hive, Spark and pyarrow write datasets: year=2024/part-0.parquet.
type Partition struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Int says that the texts of all files are integers.
	Int bool `json:"int,omitempty"`
}

// nullPartition is how Hive writes null.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// text returns the value of the column as a text, or nil.
func (p Partition) text() any {
	if p.Text == nullPartition {
		return nil
	}
	return p.Text
}

// Value returns the value of the column.
func (p Partition) Value() any {
	if n, err := strconv.ParseInt(p.Text, 10, 64); err == nil && p.Int {
		return n
	}
	return p.text()
}

// SetPartitions sets the partitions of files that are read together: of a local file those in its name, so that they do not depend on where a
// dataset is, and of an object those in its key.
func SetPartitions(files []File) {
	texts := map[string]bool{} // the columns with a text that is not an integer
	for i := range files {
		f := &files[i]
		f.Partitions = nil
		name := f.Name
		if f.IsObject() {
			name = f.Path
		}
		for folder := range strings.SplitSeq(path.Dir(name), "/") {
			key, text, ok := strings.Cut(folder, "=")
			if !ok || key == "" {
				continue
			}
			p := Partition{Name: unescaped(key), Text: unescaped(text)}
			if slices.ContainsFunc(f.Partitions, func(o Partition) bool { return o.Name == p.Name }) {
				continue
			}
			if _, err := strconv.ParseInt(p.Text, 10, 64); err != nil && p.Text != nullPartition {
				texts[p.Name] = true
			}
			f.Partitions = append(f.Partitions, p)
		}
	}
	for _, f := range files {
		for i := range f.Partitions {
			f.Partitions[i].Int = !texts[f.Partitions[i].Name]
		}
	}
}

// unescaped decodes %XX, as which Hive writes characters that are special in paths.
func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
