package script

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// folder makes a folder of files, path to content.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// put stores files as an artifact.
func put(t testing.TB, s *store.Store, typ artifact.Type, files map[string]string) artifact.Ref {
	t.Helper()
	ref, err := s.PutTree(t.Context(), typ, folder(t, files), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// refused checks that an error is the user's and says what is wanted.
func refused(t testing.TB, err error, says ...string) {
	t.Helper()
	if fault.TypeOf(err) != fault.User {
		t.Fatalf("got %v, want the user's error", err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestPrepare(t *testing.T) {
	for _, secret := range []string{
		"SLUICE_TEMPORAL_TOKEN", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH",
		"TEMPORAL_GRPC_META_AUTHORIZATION", "VAULT_TOKEN", "SLUICE_CODEC_KEYS", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
	} {
		t.Setenv(secret, "do not pass on")
	}
	t.Setenv("NPM_TOKEN", "do not pass on")
	t.Setenv("WAREHOUSE", "do not pass on")
	t.Setenv("HARMLESS", "passed on")
	t.Setenv("CORPUS", "do not pass on") // train.py reads it
	t.Setenv("LR", "do not pass on")     // the command names it
	t.Setenv("UNREAD", "do not pass on")
	t.Setenv("PATH", "/usr/bin")
	s := openStore(t)
	mail := put(t, s, artifact.Dataset, map[string]string{"train/0.jsonl": "{}\n"})
	dir := filepath.Join(t.TempDir(), "attempt")
	f, err := Prepare(t.Context(), Setup{
		Dir: dir, Store: s, Python: "/venv",
		Workspace: put(t, s, artifact.Workspace, map[string]string{"train.py": "print(os.getenv('CORPUS'))", "lib/a.py": ""}),
		Command: spec.Command{
			Command: []string{"python3", "train.py", "--mail=" + inputpath.Token("mail", mail.Digest) + "/train", "--rate=$LR"},
			Inputs:  map[string]artifact.Ref{"mail": mail},
		},
		Env:     map[string]string{"MAIL": inputpath.Token("mail", mail.Digest), "HARMLESS": "the step's own"},
		Secrets: map[string]string{"WAREHOUSE": "asked for"}, Withhold: []string{"NPM_TOKEN", "WAREHOUSE"},
	})
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "inputs", "mail")
	want := &Folder{
		Root: dir, Work: filepath.Join(dir, "work"), Output: filepath.Join(dir, "output"), Metrics: filepath.Join(dir, "metrics.jsonl"),
		Argv: []string{"python3", "train.py", "--mail=" + input + "/train", "--rate=$LR"},
	}
	env, note := f.Env, f.Note
	f.Env, f.Note = nil, ""
	for name, isIn := range map[string]bool{"AWS_SECRET_ACCESS_KEY": true, "CORPUS": true, "LR": true, "HARMLESS": false, "UNREAD": false, "NPM_TOKEN": false} {
		if strings.Contains(note, name) != isIn {
			t.Errorf("%s is in the note: %v: %s", name, !isIn, note)
		}
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
	for _, kv := range []string{
		"SLUICE_OUTPUT_DIR=" + want.Output, "SLUICE_METRICS=" + want.Metrics, "VIRTUAL_ENV=/venv", "PATH=/venv/bin:/usr/bin",
		"MAIL=" + input, "HARMLESS=the step's own", "ORT_DISABLE_TELEMETRY=1",
	} {
		if !slices.Contains(env, kv) {
			t.Errorf("the environment lacks %s", kv)
		}
	}
	if at := slices.IndexFunc(env, func(kv string) bool { return strings.Contains(kv, "do not pass on") }); at >= 0 {
		t.Errorf("the program is given %s", env[at])
	}
	if got := read(t, filepath.Join(want.Work, "train.py")); got != "print(os.getenv('CORPUS'))" {
		t.Errorf("train.py is %q", got)
	}
	if got := read(t, filepath.Join(input, "train", "0.jsonl")); got != "{}\n" {
		t.Errorf("the input is %q", got)
	}
	if info, err := os.Stat(want.Output); err != nil || !info.IsDir() {
		t.Errorf("the output folder: %v, %v", info, err)
	}
}

// A program that depends on no files of the workspace starts in an empty folder; its requirements are a file of the workspace.
func TestPrepareWithoutFiles(t *testing.T) {
	t.Setenv("PATH", "/usr/bin")
	s := openStore(t)
	workspace := put(t, s, artifact.Workspace, map[string]string{"train.py": ""})
	for name, test := range map[string]struct {
		command spec.Command
		want    int
	}{
		"none": {spec.Command{Command: []string{"true"}, Files: spec.FileList{}}, 0},
		"all":  {spec.Command{Command: []string{"true"}}, 1},
		"some": {spec.Command{Command: []string{"true"}, Files: spec.FileList{"train.py"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Prepare(t.Context(), Setup{Dir: filepath.Join(t.TempDir(), "attempt"), Store: s, Workspace: workspace, Command: test.command})
			if err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(f.Work)
			if err != nil || len(entries) != test.want {
				t.Errorf("%d files, %v; want %d", len(entries), err, test.want)
			}
		})
	}
	_, err := Prepare(t.Context(), Setup{
		Dir: filepath.Join(t.TempDir(), "attempt"), Store: s, Workspace: workspace, Python: "/no/such/venv",
		Command: spec.Command{Command: []string{"true"}, Files: spec.FileList{}, Runtime: spec.Runtime{Python: "train.py"}},
	})
	if err == nil || strings.Contains(err.Error(), "train.py: no such file") {
		t.Errorf("got %v, want an error of the virtual environment, not of the file", err)
	}
}

// TestPrepareForSluice: a program of a step finds sluice, and that its run.
func TestPrepareForSluice(t *testing.T) {
	t.Setenv("PATH", "/usr/bin")
	s := openStore(t)
	f, err := Prepare(t.Context(), Setup{
		Dir: filepath.Join(t.TempDir(), "attempt"), Store: s, State: "/state", Command: spec.Command{Command: []string{"sluice"}},
		Workspace: put(t, s, artifact.Workspace, map[string]string{"a": ""}),
	})
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range []string{"SLUICE_STATE=/state", "SLUICE_STORE=" + s.URL(), "PATH=/usr/bin:" + filepath.Dir(own)} {
		if !slices.Contains(f.Env, kv) {
			t.Errorf("the environment lacks %s: %q", kv, f.Env)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	s := openStore(t)
	workspace := put(t, s, artifact.Workspace, map[string]string{"a": ""})
	unknown := inputpath.Token("mial", "sha256:0")
	tests := []struct {
		name  string
		setup Setup
		user  bool
		says  string
	}{
		{"an input nobody declared, in the command", Setup{Workspace: workspace, Command: spec.Command{Command: []string{unknown}}}, true, "`mial`"},
		{"an input nobody declared, in env", Setup{Workspace: workspace, Env: map[string]string{"X": unknown}}, true, "env X"},
		{"a workspace that is not there", Setup{Workspace: artifact.Ref{
			Type: artifact.Workspace, Digest: "sha256:" + strings.Repeat("0", 64),
		}}, false, "fetch the workspace"},
		{"an input that is not there", Setup{Workspace: workspace, Command: spec.Command{Inputs: map[string]artifact.Ref{
			"mail": {Type: artifact.Dataset, Digest: "sha256:" + strings.Repeat("0", 64)},
		}}}, false, "fetch input mail"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.setup.Dir, tt.setup.Store = t.TempDir(), s
			_, err := Prepare(t.Context(), tt.setup)
			if err == nil || !strings.Contains(err.Error(), tt.says) || fault.TypeOf(err) == fault.User != tt.user {
				t.Errorf("got %v (the user's: %v), want %q (the user's: %v)", err, fault.TypeOf(err) == fault.User, tt.says, tt.user)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	got := Merge([]string{"B=old", "A=1", "TEMPORAL_API_KEY=x", "TEMPORAL_GRPC_META_AUTHORIZATION=x"}, map[string]string{"B": "new", "C": ""})
	if diff := cmp.Diff([]string{"A=1", "B=new", "C="}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfined(t *testing.T) {
	for _, rel := range []string{"model", "a/../b", "a/b.onnx", "."} {
		if got, err := Confined("/out", rel); err != nil || got != filepath.Join("/out", rel) {
			t.Errorf("%q: got %q, %v", rel, got, err)
		}
	}
	for _, rel := range []string{"", "..", "../model", "/etc/passwd", "a/../../b"} {
		_, err := Confined("/out", rel)
		refused(t, err, rel, "outside its folder")
	}
}

func TestLookPath(t *testing.T) {
	dir := folder(t, map[string]string{"first/data": "", "second/tool": "", "second/data": "", "first/sub/x": ""})
	for _, program := range []string{"second/tool", "second/data"} {
		if err := os.Chmod(filepath.Join(dir, program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=/", "PATH=" + filepath.Join(dir, "first") + ":" + filepath.Join(dir, "second")}
	tests := []struct{ name, want string }{
		{"tool", filepath.Join(dir, "second", "tool")},
		{"data", filepath.Join(dir, "second", "data")}, // the first is no program
		{"./run.sh", "/job/run.sh"},
		{"bin/run", "/job/bin/run"},
		{"/usr/bin/env", "/usr/bin/env"},
	}
	for _, tt := range tests {
		if got, err := LookPath(tt.name, "/job", env); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for _, name := range []string{"missing", "sub"} { // a folder is no program
		_, err := LookPath(name, "/job", env)
		refused(t, err, name, "not installed")
	}
}
