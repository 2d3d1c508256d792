package decode

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Positive reports a duration that is none.
func Positive(src *document.Source, n *yaml.Node, key string) {
	at := document.Lookup(n, key)
	if at == nil {
		return
	}
	if d, err := spec.ParseDuration(at.Value); err == nil && d <= 0 {
		src.Errorf(at, "range", "write it as 30s or 2h", "%s is not a positive duration", at.Value)
	}
}

// HasUnit reports a size of memory or disk that has no unit and can hardly be meant in bytes; it reports whether there is none.
func HasUnit(src *document.Source, n *yaml.Node, key string) bool {
	at := document.Lookup(n, key)
	if at == nil || at.Kind != yaml.ScalarNode || at.Tag != "!!int" {
		return true
	}
	const mebibyte, likelyMebibytes = 1 << 20, 1024
	if size, err := spec.ParseSize(at.Value); err == nil && size > 0 && size < mebibyte {
		unit := "GiB"
		if size >= likelyMebibytes {
			unit = "MiB"
		}
		src.Errorf(at, "size", "write its unit: "+at.Value+unit, "`%s` is %s bytes here", key, at.Value)
		return false
	}
	return true
}
