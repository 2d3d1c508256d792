package script

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// wheel is a package as indexes hold them, with one module.
func wheel(t *testing.T, name, version string) string {
	t.Helper()
	var b strings.Builder
	w := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	for path, text := range map[string]string{
		name + ".py":      "version = '" + version + "'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "",
	} {
		f, err := w.Create(path)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRequirementsAreInstalledOnce(t *testing.T) {
	base, err := filepath.Abs("../../.venv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base); err != nil {
		rig.Skip(t, "there is no .venv, which make setup makes")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := openStore(t)
	files := map[string]string{
		"requirements.txt": "--no-index\n-r more.txt\n", "more.txt": "thing==1.2\n",
	}
	t.Setenv("PIP_FIND_LINKS", folder(t, map[string]string{"thing-1.2-py3-none-any.whl": wheel(t, "thing", "1.2")}))
	prepare := func() (*Folder, string, error) {
		var said strings.Builder
		f, err := Prepare(t.Context(), Setup{
			Dir: t.TempDir(), Store: s, Workspace: put(t, s, artifact.Workspace, files), Python: base, Progress: &said,
			Command: spec.Command{Command: []string{"python3"}, Runtime: spec.Runtime{Python: "requirements.txt"}},
		})
		return f, said.String(), err
	}
	f, said, err := prepare()
	if err != nil || !strings.Contains(said, "installing requirements.txt") || !strings.Contains(said, "thing-1.2") {
		t.Fatalf("%v; it said:\n%s", err, said)
	}
	python, err := LookPath("python3", f.Work, f.Env)
	if err != nil {
		t.Fatal(err)
	}
	// What the base has is there, too.
	cmd := exec.Command(python, "-c", "import thing, numpy, sys; print(thing.version, sys.prefix)")
	cmd.Env = f.Env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "1.2 "+os.Getenv("XDG_CACHE_HOME")) {
		t.Errorf("%v: %s", err, out)
	}
	if _, said, err := prepare(); err != nil || said != "" {
		t.Errorf("the second time: %v; it said:\n%s", err, said)
	}
	files["more.txt"] = "thing==1.3\n"
	_, _, err = prepare()
	if fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), "No matching distribution found for thing==1.3") {
		t.Errorf("a version that there is not: %v", err)
	}
}

// TestBaseWithoutPip: the environments that uv makes have no pip.
func TestBaseWithoutPip(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PIP_FIND_LINKS", folder(t, map[string]string{"thing-1.2-py3-none-any.whl": wheel(t, "thing", "1.2")}))
	base := filepath.Join(t.TempDir(), "base")
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", base).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := openStore(t)
	f, err := Prepare(t.Context(), Setup{
		Dir: t.TempDir(), Store: s, Workspace: put(t, s, artifact.Workspace, map[string]string{"requirements.txt": "--no-index\nthing==1.2\n"}), Python: base,
		Command: spec.Command{Command: []string{"python3"}, Runtime: spec.Runtime{Python: "requirements.txt"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	python, err := LookPath("python3", f.Work, f.Env)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import thing; print(thing.version)").CombinedOutput(); err != nil || string(out) != "1.2\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestEnvironmentFollowsItsBase: pip does not install what the base has, so an environment is made anew when another version is there.
func TestEnvironmentFollowsItsBase(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	base := filepath.Join(t.TempDir(), "base")
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", base).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sites, err := filepath.Glob(filepath.Join(base, "lib", "python*", "site-packages"))
	if err != nil || len(sites) != 1 {
		t.Fatal(sites, err)
	}
	// A pip to which all is installed already, and an interpreter that prints before and beside its answer.
	for name, text := range map[string]string{
		"pip/__main__.py":  "print('Requirement already satisfied')\n",
		"sitecustomize.py": "import sys\nprint('hello')\nprint('a warning', file=sys.stderr)\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(sites[0], name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sites[0], name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := func(version string) string { return filepath.Join(sites[0], "foo-"+version+".dist-info") }
	if err := os.Mkdir(info("1.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	v := venv{base: base, file: "requirements.txt", work: folder(t, map[string]string{"requirements.txt": "foo==1.0\n"}), env: os.Environ(), progress: io.Discard}
	dir := func() string {
		t.Helper()
		d, err := v.dir(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := dir()
	paths, err := filepath.Glob(filepath.Join(first, "lib", "python*", "site-packages", "sluice-base.pth"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if text, err := os.ReadFile(paths[0]); err != nil || string(text) != sites[0]+"\n" {
		t.Errorf("the path file has %q, %v; want %q", text, err, sites[0])
	}
	if again := dir(); again != first {
		t.Errorf("nothing changed, and the environment is %s, want %s", again, first)
	}
	if err := os.Rename(info("1.0"), info("2.0")); err != nil {
		t.Fatal(err)
	}
	if second := dir(); second == first {
		t.Error("the base has another version than the one that was asked for, and the environment is the same")
	}
	if err := os.Rename(info("2.0"), info("1.0")); err != nil {
		t.Fatal(err)
	}
	if again := dir(); again != first {
		t.Errorf("the base is what it was, and the environment is %s, want %s", again, first)
	}
}

func TestRequirementsOfTheWorkspaceAreRefused(t *testing.T) {
	const refused = "would install from a folder or a file"
	for text, want := range map[string]string{
		"-e .\n": refused, "numpy\n./lib\n": refused, "--editable=lib": refused, "dist/a-1.0-py3-none-any.whl\n": refused, "a @ file:///a.whl": refused,
		"a-1.0.tar.gz\n": refused, "--find-links wheels\na\n": refused, "-f wheels\na\n": refused, "--index-url file:simple\na\n": refused,
		"-r ../other.txt": "outside its folder", "-r none.txt\n": `no requirements file "none.txt"`,
	} {
		work := folder(t, map[string]string{"requirements.txt": text})
		if _, err := readRequirements(work, "requirements.txt"); fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	work := folder(t, map[string]string{"a.txt": "# none\nnumpy>=1.2\n-cdeep/b.txt\n", "deep/b.txt": "-r ../a.txt\ntorch<3\n"})
	if got, err := readRequirements(work, "a.txt"); err != nil || !strings.Contains(got, "numpy") || !strings.Contains(got, "torch") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOwnTemp: without a cache folder, environments lie in a folder that nobody else could have laid there.
func TestOwnTemp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, err := ownTemp()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ownTemp(); err != nil || again != first {
		t.Fatalf("the second time: %s, %v", again, err)
	}
	if err := os.Chmod(first, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := ownTemp(); err == nil {
		t.Error("a folder that everybody may write to was taken")
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := ownTemp(); err == nil {
		t.Error("a link to another folder was taken")
	}
}
