package dsl

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readers are the transforms that read files, by how their names end.
var readers = map[string]struct{ transform, key, value string }{
	".jsonl":   {transform: "ReadFromJson"},
	".ndjson":  {transform: "ReadFromJson"},
	".json":    {"ReadFromJson", "format", "document"},
	".csv":     {transform: "ReadFromCsv"},
	".tsv":     {"ReadFromCsv", "delimiter", "\t"},
	".txt":     {transform: "ReadFromText"},
	".parquet": {transform: "ReadFromParquet"},
	".avro":    {transform: "ReadFromAvro"},
}

// writers are the transforms that write, by the word that `write` has for them.
var writers = map[string]string{"json": "WriteToJson", "csv": "WriteToCsv", "text": "WriteToText", "parquet": "WriteToParquet"}

// writtenOut puts the transforms in place of `read` and `write` that these are short for.
func writtenOut(src *source, body *yaml.Node) *yaml.Node {
	read, write := lookup(body, "read"), lookup(body, "write")
	if read == nil && write == nil {
		return body
	}
	chain := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: body.Line, Column: body.Column}
	long := *body
	long.Content = nil
	for i := 0; i+1 < len(body.Content); i += 2 {
		switch key, val := body.Content[i], body.Content[i+1]; key.Value {
		case "read", "write":
		case "transforms":
			if val = behindAlias(val); val.Kind != yaml.SequenceNode {
				return body // reported where it stands
			}
			chain.Line, chain.Column, chain.Content = val.Line, val.Column, slices.Clone(val.Content)
		default:
			long.Content = append(long.Content, key, val)
		}
	}
	if read != nil {
		if n := shortReader(src, read); n != nil {
			chain.Content = slices.Insert(chain.Content, 0, n)
		}
	}
	if write != nil {
		if n := shortWriter(src, write); n != nil {
			chain.Content = append(chain.Content, n)
		}
	}
	long.Content = append(long.Content, scalarAt(chain, "transforms"), chain)
	return &long
}

// shortReader is the transform that reads files, by how their names end.
func shortReader(src *source, paths *yaml.Node) *yaml.Node {
	found := ""
	for n := range scalarsBelow(paths) {
		name := strings.ToLower(n.Value)
		for _, packed := range []string{".gz", ".zst", ".bz2"} {
			name = strings.TrimSuffix(name, packed)
		}
		ending := path.Ext(name)
		if _, ok := readers[ending]; !ok {
			src.errorf(n, "file-format", "name the format: {type: ReadFromCsv, config: {path: ...}} as the first of `transforms`", "`read` tells the format by the ending, and `%s` has none that it knows", n.Value)
			return nil
		}
		if found != "" && found != ending {
			src.errorf(n, "file-format", "read each with a transform of its own", "`read` takes files of one format, and these end with %s and %s", found, ending)
			return nil
		}
		found = ending
	}
	reader := readers[found]
	if reader.transform == "" {
		src.errorf(paths, "required", "such as data/*.jsonl", "`read` names no files")
		return nil
	}
	config := mappingAt(paths, scalarAt(paths, "path"), paths)
	if reader.key != "" {
		config.Content = append(config.Content, scalarAt(paths, reader.key), scalarAt(paths, reader.value))
	}
	return mappingAt(paths, scalarAt(paths, "type"), scalarAt(paths, reader.transform), scalarAt(paths, "config"), config)
}

// shortWriter is the transform that writes, by a word.
func shortWriter(src *source, word *yaml.Node) *yaml.Node {
	transform, ok := writers[word.Value]
	if !ok || word.Kind != yaml.ScalarNode {
		src.errorf(word, "enum", didYouMean(word.Value, []string{"json", "csv", "text", "parquet"}), "`write` is one of json, csv, text, parquet")
		return nil
	}
	return mappingAt(word, scalarAt(word, "type"), scalarAt(word, transform))
}

// scalarAt makes a text that findings place where a node is.
func scalarAt(at *yaml.Node, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: at.Line, Column: at.Column}
}

func mappingAt(at *yaml.Node, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content, Line: at.Line, Column: at.Column}
}
