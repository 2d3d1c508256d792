package pipelines_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/flink"
)

// What Flink makes of the rows is, to the byte, what prism does, and so is the account.
func TestFlink(t *testing.T) {
	needFlink(t)
	content := map[string]string{}
	for i, row := range manyRows(3000) {
		content[string(rune('a'+i%7))] += row
	}
	input := write(t, content)
	clean := func(r pipelines.Runner) (dsl.CleanOutput, string) {
		dir := t.TempDir()
		j := job(dir, chain(t, input, dedupAndSplit))
		j.ProfileFile = filepath.Join(dir, "profile.json")
		j.Runner = r
		return mustRun(t, j), treeDigest(t, dir)
	}
	want, wantDigest := clean(pipelines.Runner{})
	got, gotDigest := clean(pipelines.Runner{Flink: &dsl.FlinkRunner{}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("account (-prism +flink):\n%s", diff)
	}
	if gotDigest != wantDigest {
		t.Errorf("digest %s on Flink, %s on prism", gotDigest, wantDigest)
	}
}

// needFlink skips the test where Flink's job server is not there, which `make flink` fetches. CI must have it.
func needFlink(t *testing.T) {
	t.Helper()
	jars, err := flink.DefaultJars()
	_, noJars := os.Stat(jars)
	_, noJava := exec.LookPath("java")
	if err := errors.Join(err, noJars, noJava); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
