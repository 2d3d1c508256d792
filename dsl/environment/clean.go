package environment

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// checkRunner reports two runners, and addresses that are none.
func checkRunner(src *document.Source, root *yaml.Node) {
	clean := document.Lookup(root, "clean")
	first := ""
	for key, n := range document.Entries(root, "clean") {
		address := ""
		switch key.Value {
		case "flink":
			address = "master"
		case "spark", "dataflow":
			address = "endpoint"
		default:
			continue
		}
		if first != "" {
			src.Errorf(key, "one-of", "keep one of them", "cleaning uses one runner, and `%s` is already set", first)
		}
		first = key.Value
		if at := document.Lookup(clean, key.Value, address); n.Kind == yaml.MappingNode && at != nil && at.Kind == yaml.ScalarNode && !hostPort(at.Value) {
			src.Errorf(at, "url", "write host:port, such as flink.example.com:8081", "%q is not the address of a cluster", at.Value)
		}
	}
}

func hostPort(address string) bool {
	at := strings.LastIndexByte(address, ':')
	if at <= 0 || strings.ContainsAny(address, "/@ ") {
		return false
	}
	port, err := strconv.ParseUint(address[at+1:], 10, 16)
	return err == nil && port > 0
}
