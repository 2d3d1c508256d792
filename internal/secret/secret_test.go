package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(secrets map[string]spec.SecretSource) *spec.Environment {
	return &spec.Environment{Name: "test", Secrets: secrets}
}

func TestValue(t *testing.T) {
	t.Setenv("MY_TOKEN", "from the variable\n")
	tests := []struct {
		name   string
		source spec.SecretSource
		want   string
	}{
		{"a variable, as it is", spec.SecretSource{Env: "MY_TOKEN"}, "from the variable\n"},
		{"a file, without its last line break", spec.SecretSource{File: file(t, "from\nthe file\n")}, "from\nthe file"},
		{"a file of another system", spec.SecretSource{File: file(t, "from the file\r\n")}, "from the file"},
		{"one line break of two", spec.SecretSource{File: file(t, "from the file\n\n")}, "from the file\n"},
		{"as long as can be", spec.SecretSource{File: file(t, strings.Repeat("x", maxLength)+"\n")}, strings.Repeat("x", maxLength)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewResolver().Value(t.Context(), environment(map[string]spec.SecretSource{"a": tt.source}), "a")
			if err != nil || got != tt.want {
				t.Errorf("got %.60q, %v", got, err)
			}
		})
	}
}

func TestValueRefuses(t *testing.T) {
	t.Setenv("SHORT", "hij")
	t.Setenv("SLUICE_TEMPORAL_TOKEN", "rules them all")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		source spec.SecretSource
		reason error
		says   string
	}{
		{"no source", spec.SecretSource{}, ErrUnusable, "no source"},
		{"a variable that is not set", spec.SecretSource{Env: "NOT_SET_AT_ALL"}, ErrNotFound, "NOT_SET_AT_ALL is not set"},
		{"Sluice's own", spec.SecretSource{Env: "SLUICE_TEMPORAL_TOKEN"}, ErrForbidden, "reserved by Sluice"},
		{"too short", spec.SecretSource{Env: "SHORT"}, ErrUnusable, "has 3 bytes"},
		{"too long", spec.SecretSource{File: file(t, strings.Repeat("x", maxLength+1))}, ErrUnusable, "longer than 64 KiB"},
		{"binary", spec.SecretSource{File: file(t, "ab\x00cd")}, ErrUnusable, "NUL"},
		{"no file", spec.SecretSource{File: "/does/not/exist"}, ErrNotFound, "/does/not/exist does not exist"},
		{"a relative path", spec.SecretSource{File: "secret"}, ErrUnusable, "not absolute"},
		{"a folder", spec.SecretSource{File: t.TempDir()}, ErrUnusable, "not a regular file"},
		{"a pipe that nobody writes to", spec.SecretSource{File: fifo}, ErrUnusable, "not a regular file"},
		{"Vault without an address", spec.SecretSource{Vault: "kv/a#b"}, ErrUnusable, "VAULT_ADDR is not set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value, err := NewResolver().Value(t.Context(), environment(map[string]spec.SecretSource{"a": tt.source}), "a")
			if value != "" || !errors.Is(err, tt.reason) || Temporary(err) {
				t.Fatalf("got %q, %v", value, err)
			}
			if said := err.Error(); !strings.HasPrefix(said, "secret a: ") || !strings.Contains(said, tt.says) ||
				strings.Contains(said, "hij") || strings.Contains(said, "rules them all") {
				t.Errorf("it says %q", said)
			}
		})
	}
	_, err := NewResolver().Value(t.Context(), environment(nil), "a")
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `environment test has no secret "a"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Setenv("FIRST", "first value")
	env := environment(map[string]spec.SecretSource{"one": {Env: "FIRST"}, "two": {File: file(t, "second value")}})
	got, err := NewResolver().Resolve(t.Context(), env, map[string]string{"A": "one", "B": "two"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "first value", "B": "second value"}, got.ByVariable); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if said := got.Mask.Text("first value, second value"); said != "***, ***" {
		t.Errorf("masked: %q", said)
	}
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"} {
		t.Setenv(variable, "")
	}
	if none, err := NewResolver().Resolve(t.Context(), env, nil); err != nil || none.Mask != nil || none.ByVariable != nil {
		t.Errorf("of no names: %v, %v", none, err)
	}
	if _, err := NewResolver().Resolve(t.Context(), env, map[string]string{"C": "three"}); err == nil || !strings.HasPrefix(err.Error(), "C: ") {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestInheritedPasswords: passwords in the URLs that all programs inherit are masked, whether a step has secrets or not.
func TestInheritedPasswords(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://somebody:pr%2Foxy@proxy:3128")
	t.Setenv("PIP_EXTRA_INDEX_URL", "https://pypi.example/simple https://token-of-pip@pypi.example/private/simple")
	t.Setenv("DATABASE_URL", "postgres://somebody:postgres@db/")
	got, err := NewResolver().Resolve(t.Context(), environment(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	const before = "via http://somebody:pr%2Foxy@proxy:3128 (pr/oxy), https://token-of-pip@pypi.example/private, postgres"
	const want = "via http://somebody:***@proxy:3128 (***), https://***@pypi.example/private, postgres"
	if said := got.Mask.Text(before); said != want {
		t.Errorf("masked: %q, want %q", said, want)
	}
}

func TestVariables(t *testing.T) {
	got := Variables(environment(map[string]spec.SecretSource{"a": {Env: "B"}, "b": {Env: "A"}, "c": {Env: "A"}, "d": {File: "/x"}}))
	if diff := cmp.Diff([]string{"A", "B"}, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}
