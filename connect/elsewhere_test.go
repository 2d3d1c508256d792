package connect

import (
	"testing"

	"github.com/sluiceml/sluice/connect/embedded"
)

// Whether a run was started elsewhere is only said where it is certain.
func TestIsElsewhere(t *testing.T) {
	dir, unused := t.TempDir(), t.TempDir()
	token, err := embedded.EnsureToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, home, cluster string
		want                     bool
	}{
		{name: "this folder", dir: dir, home: token.Folder()},
		{name: "another folder", dir: dir, home: "0123456789abcdef", want: true},
		{name: "a cluster", dir: dir, home: "default at temporal:7233", want: true},
		{name: "a folder that nothing has used", dir: unused, home: token.Folder(), want: true},
		{name: "a record without a server", dir: dir},
		{name: "on a cluster, whose name only a connection knows", dir: dir, home: "default at temporal:7233", cluster: "temporal:7233"},
	} {
		t.Setenv("TEMPORAL_ADDRESS", c.cluster)
		if got := IsElsewhere(c.dir, c.home); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
