package environment

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
)

// checkRunner reports addresses that are none.
func checkRunner(src *document.Source, root *yaml.Node) {
	clean := document.Lookup(root, "clean")
	decode.HasUnit(src, clean, "memory")
	noTilde(src, document.Lookup(clean, "flink", "job_server"))
	if at := document.Lookup(clean, "flink", "master"); at != nil && at.Kind == yaml.ScalarNode && (!IsHostPort(at.Value) || strings.HasSuffix(at.Value, ":0")) {
		src.Errorf(at, "url", "write host:port, such as flink.example.com:8081", "%q is not the address of a cluster", at.Value)
	}
}
