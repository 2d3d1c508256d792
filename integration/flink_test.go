package integration

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// The example's mail, cleaned on Flink, is to the byte what it is without, and so are the rejected rows and the account.
func TestSpamOnFlink(t *testing.T) {
	jars, err := runner.DefaultJars()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(jars); err != nil {
		rig.Skip(t, err, ": `make flink` fetches Flink's job server")
	}
	s := newSandbox(t, "release")
	example, err := filepath.Abs("../examples/spam")
	if err != nil {
		t.Fatal(err)
	}
	mail := filepath.Join(s.dir, "mail")
	if err := os.Mkdir(mail, 0o700); err != nil {
		t.Fatal(err)
	}
	fetch := exec.Command("python3", filepath.Join(example, "fetch.py"))
	fetch.Env = append(os.Environ(), "SLUICE_OUTPUT_DIR="+mail)
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func(runner, settings string) (c *command, out string) {
		env := filepath.Join(s.dir, runner+".yaml")
		write(t, env, "sluice: environment/v1\nname: "+runner+"\npools: {spot: {local: {nodes: 2}}}\ntargets: {spam: {embedded: {}}}\n"+settings)
		out = filepath.Join(s.dir, runner)
		if err := os.Mkdir(out, 0o700); err != nil {
			t.Fatal(err)
		}
		return s.start("clean", filepath.Join(example, "pipeline.yaml"), "--step", "mail", "--input", "raw="+filepath.Join(mail, "raw"),
			"-e", env, "-o", filepath.Join(out, "dataset"), "--format", "json"), out
	}
	clean := func(runner, settings string) (account string, files map[string]string) {
		c, out := start(runner, settings)
		c.expect(0)
		return strings.ReplaceAll(c.stdout.String(), out, ""), digests(t, out)
	}
	nowhere, _ := start("nowhere", "clean: {flink: {job_server: /nowhere.jar}}\n")
	nowhere.expect(1).says("/nowhere.jar", "make flink")

	account, files := clean("inprocess", "")
	flinkAccount, flinkFiles := clean("flink", "clean: {flink: {}}\n")
	if !strings.Contains(account, `"read": 6046`) {
		t.Errorf("not all mail was read: %.200s", account)
	}
	if diff := cmp.Diff(account, flinkAccount); diff != "" {
		t.Errorf("the account (-inprocess +flink):\n%s", diff)
	}
	if len(files) != 14 { // three parts of four shards, the schema, and the rejected rows
		t.Errorf("%d files without Flink: %v", len(files), files)
	}
	if diff := cmp.Diff(files, flinkFiles); diff != "" {
		t.Errorf("the files (-inprocess +flink):\n%s", diff)
	}
}

// digests returns a digest of each file of a folder, by its path there.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		found[path] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
