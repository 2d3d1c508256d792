package dsl

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// checkTargets reports two targets on one port, sizes of batches that cannot be, models where KServe cannot be, and addresses that are none.
func checkTargets(src *document.Source, root *yaml.Node, env *spec.Environment) {
	taken := map[int]string{}
	for key, body := range document.Entries(root, "targets") {
		target := env.Targets[key.Value]
		for _, port := range target.Ports() {
			switch other, ok := taken[port]; {
			case ok && other == key.Value:
				src.Errorf(key, "port", "give it another `metrics_port`", "the target `%s` has port %d for its model and for its metrics", key.Value, port)
			case ok:
				src.Errorf(key, "port", "give one of them another `port`", "the targets `%s` and `%s` listen on the same port %d", other, key.Value, port)
			}
			taken[port] = key.Value
		}
		if target.Embedded != nil {
			checkBatching(src, document.Lookup(body, "embedded", "batching"), target.Embedded.Batching)
		}
		if target.KServe != nil {
			checkKServe(src, key, document.Lookup(body, "kserve"), *target.KServe, env.Store.URL)
		}
	}
}

// checkBatching reports preferred sizes that no inference can have.
func checkBatching(src *document.Source, body *yaml.Node, b spec.Batching) {
	for i, size := range b.Preferred {
		if size > b.MaxBatch {
			src.Errorf(document.Lookup(body, "preferred", i), "range", "", "%d is more than `max_batch`, %d", size, b.MaxBatch)
		}
	}
}

func checkKServe(src *document.Source, key, body *yaml.Node, t spec.KServeTarget, store string) {
	if t.Models == "" {
		if !objectstore.IsAddress(store) {
			src.Errorf(key, "required", "write such as `models: s3://bucket/folder`, or keep the store in a bucket",
				"KServe cannot read the models of `%s` from the store", key.Value)
		}
	} else if _, err := objectstore.ParseFolder(t.Models); err != nil {
		src.Errorf(document.Lookup(body, "models"), "url", "write such as s3://bucket/folder", "KServe cannot read models there: %v", err)
	}
	if at := document.Lookup(body, "ingress"); at != nil && !strings.HasPrefix(t.Ingress, "http://") && !strings.HasPrefix(t.Ingress, "https://") {
		src.Errorf(at, "url", "write such as http://10.0.0.5", "%q is not the address of an ingress", t.Ingress)
	}
}
