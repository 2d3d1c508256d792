package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLabelsHaveRoom(t *testing.T) {
	var names []string
	for i := range 100 {
		names = addLabel(names, fmt.Sprintf("%063d", i))
		raw, err := json.Marshal(names)
		if err != nil || len(raw) > maxLabel {
			t.Fatalf("%d names are %d bytes, %v", len(names), len(raw), err)
		}
	}
	if len(names) < 30 || !strings.HasSuffix(names[len(names)-1], "99") || !strings.HasSuffix(names[0], fmt.Sprint(100-len(names))) {
		t.Errorf("names %q, want the newest", names)
	}
	if got := addLabel([]string{"a", "b"}, "a"); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("a name that is published again: %q", got)
	}
}
