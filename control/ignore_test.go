package control

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// TestIgnoreIsGits: a .sluiceignore leaves out what git would by the same lines.
func TestIgnoreIsGits(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"train.py", "a.pt", "a.pts", "models/a.pt", "models/deep/er/a.pt", "data/raw/mail.json", "data/raw2/x", "other/data/raw/x", "other/data/file",
		"build/x", "other/build", "docs/readme.md", "docs/deep/readme.md", "docs/deep/er/readme.md", "# a comment", "#x", "!x", " lead", "trail ", "a[b", `back\slash`,
		"x1/log", "x2/sub/log", "x-/log", "logs/keep.txt", "logs/drop.txt", "a/b", "a/x/b", "a/x/y/b", "aa/xb", "Mixed/Case", "é",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git("init", "-q")
	for _, lines := range []string{
		"", "# a comment\n\n*.pt\ndata/raw/ \n/build\ndocs/*.md\r\n", "**", "**/", "/**", "*", "/*", "**/*.md", "docs/**", "docs/**/readme.md", "**/deep", "**/deep/", "**/deep/**",
		"a/**/b", "a/**b", "a**", "a/**/", "**/**/b", "***/b", "docs/***/readme.md", "a/*/b", "data", "data/", "data/raw", "/data/raw", "data/raw/", "/other/data/", "build/", "build", "raw", "file/",
		"x[12]/log", "x[!12]/log", "x[^1]/log", "x[1-9]", "x[a\\-]", "x?", `a\[b`, `a\[!b`, `\#x`, `\!x`, "#x", "!x", `back\\slash`, `trail\ `, `trail\  `, "trail ", "trail*",
		`\ lead`, "logs/*\n!logs/keep.txt", "logs/\n!logs/keep.txt", "*.txt\n!keep.txt\n*.txt", "*\n!*/\n!*.md", "*\n!docs", "mixed", "M*", "M*/[A-C]ase", "\ufeff*.md", "é", "*.md/", "d*/*/*.md",
	} {
		if err := os.WriteFile(filepath.Join(dir, ignoreFile), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(git("ls-files", "-z", "--others", "--exclude-per-directory="+ignoreFile), "\x00"), "\x00")
		folder, err := workspaceOf(dir, t.TempDir(), nil)
		if err != nil {
			t.Errorf("%q: %v", lines, err)
			continue
		}
		files, err := store.ListTree(t.Context(), dir, folder.ignores)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(files))
		for i, f := range files {
			got[i] = f.Path
		}
		slices.Sort(want)
		if len(got) == 0 {
			got = []string{""}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: taken along (-git +sluice):\n%s", lines, diff)
		}
	}
}

// What is never part of a workspace is not, whatever .sluiceignore says.
func TestAlwaysIgnored(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ignoreFile), []byte("!.git\n!*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := readIgnore(filepath.Join(dir, ignoreFile))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		".git": true, "lib/__pycache__": true, ".sluice": true, ".venv": true, "web/node_modules": true, ".gitignore": false, "train.py": false,
		"spam-filter-20261127-154644-4bf048.html": true, "out/spam-filter-20261127-154644-4bf048.fit-2.html": true, "nightly-2026-11-27T03:00:00Z.html": true,
		"index.html": false, "spam-filter-20261127-154644-4bf048.csv": false, "log-2026-11-27.html": false,
	} {
		if got := leftOut(rules, p); got != want {
			t.Errorf("%s: left out is %v, want %v", p, got, want)
		}
	}
}

// leftOut reports whether rules leave a file out.
func leftOut(rules []rule, p string) bool {
	last := lastMatch(rules, p, false)
	return last != nil && !last.take
}

// TestSecretsStayOut: what seems to hold secrets, and what this process reads some from, stays out unless it is asked for.
func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".env", ".env.local", "sub/.env", "tls/server.pem", "id_rsa", "ID_RSA.bak", "prod.env", ".aws/credentials", "team.keys", "train.py", "public.pem", "envs/a.py"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".sluiceignore"), []byte("!public.pem\n!.git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := workspaceOf(dir, t.TempDir(), []string{filepath.Join(dir, "team.keys")})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.ListTree(t.Context(), dir, folder.ignores)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	if diff := cmp.Diff([]string{".sluiceignore", "envs/a.py", "public.pem", "train.py"}, names); diff != "" {
		t.Errorf("taken along (-want +got):\n%s", diff)
	}
	slices.Sort(folder.withheld)
	if diff := cmp.Diff([]string{".aws", ".env", ".env.local", "ID_RSA.bak", "id_rsa", "prod.env", "sub/.env", "team.keys", "tls/server.pem"}, folder.withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if !folder.ignores(".git") {
		t.Error(".git is taken along")
	}
}

func TestIgnoreWithoutFile(t *testing.T) {
	rules, err := readIgnore(filepath.Join(t.TempDir(), ".sluiceignore"))
	if err != nil {
		t.Fatal(err)
	}
	if leftOut(rules, "train.py") || !leftOut(rules, ".git") {
		t.Errorf("left out: train.py %v, .git %v", leftOut(rules, "train.py"), leftOut(rules, ".git"))
	}
}

// What is no file is refused: a named pipe would be waited for until someone writes into it.
func TestIgnoreIsNoFile(t *testing.T) {
	for name, create := range map[string]func(string) error{
		"folder": func(file string) error { return os.Mkdir(file, 0o700) },
		"pipe":   func(file string) error { return syscall.Mkfifo(file, 0o600) },
	} {
		file := filepath.Join(t.TempDir(), ignoreFile)
		if err := create(file); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := readIgnore(file)
			done <- err
		}()
		select {
		case err := <-done:
			if f, ok := fault.As(err); !ok || f.Type != fault.Invalid || !strings.HasPrefix(err.Error(), file+" is not a regular file\nhelp: ") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: is waited for", name)
		}
	}
}

// What git would take for a pattern that matches nothing is refused, at its line.
func TestIgnoreRefusesWhatMatchesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), ignoreFile)
	for pattern, why := range map[string]string{
		"[a-": "is not valid", "[]a]": "is not valid", `x\`: "is not valid", "[a/b]": "is not valid", "[[:alpha:]]": "named character class", "a//b": "matches nothing",
		"./a": "matches nothing", "../a": "matches nothing", "/": "matches nothing", "!": "matches nothing", "  data/raw/": "begins with a space",
	} {
		if err := os.WriteFile(file, []byte("*.pt\n"+pattern+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readIgnore(file); err == nil || !strings.Contains(err.Error(), file+":2: ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want an error at %s:2 that says: %s", pattern, err, file, why)
		}
	}
}

// A state folder that is not called .sluice is no part of the pipeline either.
func TestTheStateFolderIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	for stateDir, want := range map[string]bool{filepath.Join(dir, "state"): true, filepath.Join(dir, "a", "state"): false, t.TempDir(): false} {
		folder, err := workspaceOf(dir, stateDir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := folder.ignores("state"); got != want {
			t.Errorf("with the state in %s: `state` is left out: %v, want %v", stateDir, got, want)
		}
		if !folder.ignores(".git") || folder.ignores("train.py") {
			t.Errorf("with the state in %s: .git is left out: %v, train.py: %v", stateDir, folder.ignores(".git"), folder.ignores("train.py"))
		}
	}
}

// A store in the pipeline's folder is no part of the pipeline: each run would store all that was stored before it.
func TestTheStoreIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	for url, want := range map[string]bool{"file://" + dir + "/kept": true, "file://" + t.TempDir() + "/kept": false, "s3://lab/kept": false} {
		t.Setenv(state.StoreVariable, url)
		folder, err := workspaceOf(dir, filepath.Join(dir, state.Dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := folder.ignores("kept"); got != want {
			t.Errorf("with the store %s: `kept` is left out: %v, want %v", url, got, want)
		}
		if folder.ignores("train.py") || folder.ignores("a/kept") {
			t.Errorf("with the store %s: train.py is left out: %v, a/kept: %v", url, folder.ignores("train.py"), folder.ignores("a/kept"))
		}
	}
}

// What is in another state folder is for nobody to have, and environments are for other runs.
func TestOthersFoldersAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".sluice-lab/lock": "", ".sluice-lab/token": "secret", "mine/token": "a word", "environments/prod.yaml": "sluice: environment/v1\n",
		"environments/gym.yaml": "agents: 3\n", "environments/cart.py": "", "other/prod.yaml": "sluice: environment/v1\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := workspaceOf(dir, filepath.Join(dir, ".sluice"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		".sluice-lab": true, "mine": false, "environments": false, "environments/prod.yaml": true, "environments/gym.yaml": false,
		"environments/cart.py": false, "other/prod.yaml": false,
	} {
		if got := folder.ignores(p); got != want {
			t.Errorf("%s is left out: %v, want %v", p, got, want)
		}
	}
}

// A file that this process writes to is no part of the pipeline, by whatever name; one that it has written before is.
func TestOwnOutputIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "old.log"), nil, 0o600), os.Symlink("run.log", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	info, err := log.Stat()
	if err != nil {
		t.Fatal(err)
	}
	own := func(path string) bool { return isOne(filepath.Join(dir, path), []os.FileInfo{info}) }
	for path, want := range map[string]bool{"run.log": true, "link": true, "old.log": false, "nothing": false} {
		if got := own(path); got != want {
			t.Errorf("%s: left out is %v, want %v", path, got, want)
		}
	}
}

// What cannot be part of a workspace is the user's error, and the line that the help names leaves it out, and nothing else.
func TestIrregularFilesAreNamedWithTheLineForThem(t *testing.T) {
	pipe := func(file string) error { return syscall.Mkfifo(file, 0o600) }
	for name, tt := range map[string]struct {
		path string
		make func(file string) error
		want string
	}{
		"a link to a folder": {"runs/latest", func(file string) error { return os.Symlink("1", file) }, "runs/latest, in the folder of p.yaml, is a symbolic link to a folder, and such links are " +
			"not followed, so it cannot be uploaded with the run\nhelp: if no step needs it, add the line /runs/latest to .sluiceignore; if a step needs it, replace it with a regular file or folder"},
		"a name with other characters": {"runs/a[1]*\\? ", pipe, `runs/a[1]*\? , in the folder of p.yaml, is a named pipe, so it cannot be uploaded with the run` + "\n" +
			`help: if no step needs it, add the line /runs/a\[1]\*\\\?\  to .sluiceignore; if a step needs it, replace it with a regular file or folder`},
		"a name that is not UTF-8": {"runs/caf\xe9", func(file string) error { return os.WriteFile(file, nil, 0o600) }, `"runs/caf\xe9", in the folder of p.yaml, has a name that is not valid UTF-8, ` +
			"so it cannot be uploaded with the run\nhelp: if no step needs it, add the line /runs/caf? to .sluiceignore; if a step needs it, rename it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "runs", "1"), 0o755), os.WriteFile(filepath.Join(dir, "runs", "1", "a"), nil, 0o600),
				tt.make(filepath.Join(dir, tt.path))); err != nil {
				t.Fatal(err)
			}
			list := func() ([]artifact.File, error) {
				folder, err := workspaceOf(dir, filepath.Join(dir, ".sluice"), nil)
				if err != nil {
					t.Fatal(err)
				}
				return store.ListTree(t.Context(), dir, folder.ignores)
			}
			_, err := list()
			err = notAFile("p.yaml", err)
			if err == nil || fault.TypeOf(err) != fault.Invalid {
				t.Fatalf("got %v of type %s, want a user's error", err, fault.TypeOf(err))
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("the message (-want +got):\n%s", diff)
			}
			if err := os.WriteFile(filepath.Join(dir, ".sluiceignore"), []byte(patternOf(tt.path)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			files, err := list()
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range files {
				paths = append(paths, f.Path)
			}
			if diff := cmp.Diff([]string{".sluiceignore", "runs/1/a"}, paths); diff != "" {
				t.Errorf("with that line (-want +got):\n%s", diff)
			}
		})
	}
}
