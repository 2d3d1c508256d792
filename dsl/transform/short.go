package transform

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/suggest"
)

// readers are the transforms that read files, by how their names end.
var readers = map[string]struct{ transform, key, value string }{
	".jsonl":   {transform: TypeOf[ReadFromJSON]()},
	".ndjson":  {transform: TypeOf[ReadFromJSON]()},
	".json":    {TypeOf[ReadFromJSON](), "format", "document"},
	".csv":     {transform: TypeOf[ReadFromCSV]()},
	".tsv":     {TypeOf[ReadFromCSV](), "delimiter", "\t"},
	".txt":     {transform: TypeOf[ReadFromText]()},
	".parquet": {transform: TypeOf[ReadFromParquet]()},
	".avro":    {transform: TypeOf[ReadFromAvro]()},
}

// writers are the transforms that write, by the word that `write` has for them.
var writers = map[string]string{
	"json": TypeOf[WriteToJSON](), "csv": TypeOf[WriteToCSV](), "text": TypeOf[WriteToText](), "parquet": TypeOf[WriteToParquet](),
	"avro": TypeOf[WriteToAvro](),
}

// WriteOut puts the transforms in place of `read` and `write` in a clean step that these are short for.
func WriteOut(r document.Reporter, body *yaml.Node) *yaml.Node {
	read, write := document.Lookup(body, "read"), document.Lookup(body, "write")
	if read == nil && write == nil {
		return body
	}
	for _, pair := range [][2]string{{"read", "source"}, {"write", "sink"}} {
		if document.Lookup(body, pair[0]) != nil && document.Lookup(body, pair[1]) != nil {
			r.Errorf(document.KeyNode(body, pair[1]), "one-of", "keep one of them", "`%s` is short for a `%s`, and both are here", pair[0], pair[1])
			body = document.Without(body, pair[1])
		}
	}
	chain := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: body.Line, Column: body.Column}
	long := *body
	long.Content = nil
	for i := 0; i+1 < len(body.Content); i += 2 {
		switch key, val := body.Content[i], body.Content[i+1]; key.Value {
		case "read", "write":
		case "transforms":
			if val = document.Unalias(val); val.Kind != yaml.SequenceNode {
				return body // reported where it stands
			}
			chain.Line, chain.Column, chain.Content = val.Line, val.Column, slices.Clone(val.Content)
		default:
			long.Content = append(long.Content, key, val)
		}
	}
	if read != nil {
		chain.Content = slices.Insert(chain.Content, 0, shortReader(r, read))
	}
	if write != nil {
		chain.Content = append(chain.Content, shortWriter(r, write))
	}
	long.Content = append(long.Content, document.NewScalar(chain, "transforms"), chain)
	return &long
}

// endingOf returns an ending of the files that a transform of a type reads.
func endingOf(typ string) string {
	for _, ending := range slices.Sorted(maps.Keys(readers)) {
		if reader := readers[ending]; reader.transform == typ && reader.key == "" {
			return ending
		}
	}
	return ""
}

// unreadable are endings of files of rows or documents in formats that no transform reads.
var unreadable = regexp.MustCompile(`^\.(?:xlsx?|xlsm|ods|docx?|pdf|feather|arrow|orc|npy|npz|h5|hdf5|pkl|tfrecords?|sqlite3?|db)$`)

// shortReader is the transform that reads files, by how their names end.
func shortReader(r document.Reporter, paths *yaml.Node) *yaml.Node {
	found := ""
	if paths.Kind == yaml.MappingNode {
		r.Errorf(paths, "type", "write the path, `read: data/*.jsonl`, or the transform as the first of `transforms`", "expected a path or a list of paths, not a mapping")
		return unread(paths)
	}
	for n := range document.Scalars(paths) {
		ending := fileEnding(n.Value)
		_, known := readers[ending]
		switch {
		case inputFolder.MatchString(n.Value):
			folderRead(r, n, ".jsonl")
		case unreadable.MatchString(ending):
			r.Errorf(n, "file-format", "convert the files in a `run` step first, to one of "+strings.Join(slices.Sorted(maps.Keys(readers)), ", "), "`read` cannot read files that end with %s", ending)
		case !known:
			r.Errorf(n, "file-format", "give the format: {type: ReadFromCsv, config: {path: ...}} as the first of `transforms`", "`read` takes the format from the file extension, and that of `%s` is missing or unknown", n.Value)
		case found != "" && readers[found] != readers[ending]:
			r.Errorf(n, "file-format", "read each format with a transform of its own", "`read` takes files of one format, but these have the extensions %s and %s", found, ending)
		default:
			found = ending
			continue
		}
		return unread(paths)
	}
	reader := readers[found]
	if reader.transform == "" {
		r.Errorf(paths, "required", "for example data/*.jsonl", "`read` lists no files")
		return unread(paths)
	}
	config := []*yaml.Node{document.NewScalar(paths, "path"), paths}
	if reader.key != "" {
		config = append(config, document.NewScalar(paths, reader.key), document.NewScalar(paths, reader.value))
	}
	return newReader(paths, reader.transform, config...)
}

// newReader makes a transform that reads, where a node is.
func newReader(at *yaml.Node, typ string, config ...*yaml.Node) *yaml.Node {
	return document.NewMapping(at, document.NewScalar(at, "type"), document.NewScalar(at, typ), document.NewScalar(at, "config"), document.NewMapping(at, config...))
}

// fileEnding tells the format of files, which may be compressed, and in a bucket that has options.
func fileEnding(name string) string {
	ending, _ := fileEndings(name)
	return ending
}

// fileEndings tells the format of files, and how they are compressed: empty, or one of .gz, .zst and .bz2.
func fileEndings(name string) (format, packed string) {
	name = strings.ToLower(name)
	if strings.Contains(name, "://") {
		name, _, _ = strings.Cut(name, "?")
	}
	switch packed = path.Ext(name); packed {
	case ".gz", ".zst", ".bz2":
		return path.Ext(strings.TrimSuffix(name, packed)), packed
	}
	return packed, ""
}

// unread is a reader in the place of one that could not be told, which was reported: what follows it is not to blame.
func unread(at *yaml.Node) *yaml.Node {
	return newReader(at, readers[".jsonl"].transform, document.NewScalar(at, "path"), document.NewScalar(at, "unread.jsonl"))
}

// shortWriter is the transform that writes, by a word.
func shortWriter(r document.Reporter, word *yaml.Node) *yaml.Node {
	transform, ok := writers[word.Value]
	if !ok || word.Kind != yaml.ScalarNode {
		hint := cmp.Or(suggest.DidYouMean(word.Value, []string{"json", "csv", "text", "parquet", "avro"}), "write the format alone: the dataset is an output, and has no path")
		r.Errorf(word, "enum", hint, "`write` must be one of json, csv, text, parquet, avro")
		transform = writers["json"] // what is before it is not to blame
	}
	return document.NewMapping(word, document.NewScalar(word, "type"), document.NewScalar(word, transform))
}
