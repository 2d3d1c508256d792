package stepargs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/internal/artifact"
)

func TestArguments(t *testing.T) {
	long := strings.Repeat("a rule, ", 1<<17) // longer than an argument may be
	resolved, err := json.Marshal(map[string]string{"rules": long})
	if err != nil {
		t.Fatal(err)
	}
	command := Command(Clean, map[string]artifact.Ref{"rows": {Digest: "sha256:ab"}, "held": {Digest: "sha256:cd"}})
	args, err := Write(command, "/bin/sluice", t.TempDir(), resolved)
	if err != nil || args[0] != "/bin/sluice" || args[1] != Clean {
		t.Fatalf("%q, %v", args, err)
	}
	for i := range args {
		if args[i], err = inputpath.Replace(args[i], map[string]string{"rows": "/in/a=b", "held": "/in/held"}); err != nil {
			t.Fatal(err)
		}
	}
	got, dirs, err := Read[map[string]string](args[2:])
	if err != nil || got["rules"] != long {
		t.Errorf("the spec was read as %.20q, %v", got, err)
	}
	if diff := cmp.Diff(map[string]string{"rows": "/in/a=b", "held": "/in/held"}, dirs); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{nil, {"/nonexistent"}} {
		if _, _, err := Read[map[string]string](args); err == nil {
			t.Errorf("%q was read", args)
		}
	}
}
