package artifact

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIn(t *testing.T) {
	const ref = `{"type": "model", "digest": "sha256:1f", "bytes": 1, "files": 1}`
	raw := `{"selected": {"name": "int8", "model": ` + ref + `}, "models": [` + ref + `, {"deep": ` + ref + `}], "f1": 0.9, "none": null,
		"other": {"type": "model"}}`
	got := slices.Sorted(maps.Keys(In(json.RawMessage(raw))))
	if diff := cmp.Diff([]string{"models[0]", "models[1].deep", "selected.model"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
