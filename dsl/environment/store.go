package environment

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// checkStore reports an address that no store can have.
func checkStore(src *document.Source, root *yaml.Node, env *spec.Environment) {
	at := document.Lookup(document.Lookup(root, "store"), "url")
	if at == nil {
		return
	}
	const hint = "write for example s3://bucket?region=eu-central-1, gs://bucket/folder or file:///folder"
	url := env.Store.URL
	if objectstore.IsAddress(url) {
		if _, err := objectstore.ParseFolder(url); err != nil {
			src.Errorf(at, "url", hint, "a store cannot be kept there: %v", err)
		} else {
			CheckRegion(src, at)
		}
	} else if at.Kind != yaml.ScalarNode || strings.Contains(at.Value, "${") {
		return // reported
	} else if folder, ok := strings.CutPrefix(url, "file://"); !ok || !path.IsAbs(folder) {
		src.Errorf(at, "url", hint, "%q is not the address of a store", url)
	} else if IsReplaced(url) {
		src.Warnf(at, "url", "write the folder as it is called", "the URL is taken literally: nothing in it is replaced")
	}
}
