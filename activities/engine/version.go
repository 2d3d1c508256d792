package engine

import (
	"bytes"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines"
)

// revised are the transforms whose results have changed since pipelines.Version was raised last, each with what it adds to the version of
// cleanings that have it.
var revised = []struct{ transform, mark string }{
	{transform.TypeOf[transform.ReadFromParquet](), "p2"}, // booleans in runs, LZ4_RAW; the types of columns beside files without values
	{transform.TypeOf[transform.ReadFromAvro](), "a1"},    // the types of columns beside files without values
	{transform.TypeOf[transform.QualityFilter](), "q1"},   // stop words in quotes of all kinds
}

// cleaningVersion is pipelines.Version for a cleaning with these transforms, in JSON.
func cleaningVersion(transforms []byte) string {
	version := pipelines.Version
	for _, r := range revised {
		if bytes.Contains(transforms, []byte(`"`+r.transform+`"`)) {
			version += r.mark
		}
	}
	return version
}
