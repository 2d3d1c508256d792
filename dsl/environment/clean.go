package environment

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/address"
	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
)

// checkRunner reports two runners, and addresses that are none.
func checkRunner(src *document.Source, root *yaml.Node) {
	clean := document.Lookup(root, "clean")
	decode.HasUnit(src, clean, "memory")
	noTilde(src, document.Lookup(clean, "flink", "job_server"))
	first := ""
	for key, n := range document.Entries(root, "clean") {
		where := ""
		switch key.Value {
		case "flink":
			where = "master"
		case "spark", "dataflow":
			where = "endpoint"
		default:
			continue
		}
		if first != "" {
			src.Errorf(key, "one-of", "keep one of them", "cleaning uses one runner, and `%s` is already set", first)
		}
		first = key.Value
		if at := document.Lookup(clean, key.Value, where); n.Kind == yaml.MappingNode && at != nil && at.Kind == yaml.ScalarNode && (!address.IsHostPort(at.Value) || strings.HasSuffix(at.Value, ":0")) {
			src.Errorf(at, "url", "write host:port, such as flink.example.com:8081", "%q is not the address of a cluster", at.Value)
		}
	}
}
