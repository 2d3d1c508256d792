package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An interpreter is another one when what is installed for it changes, and not for where it lies.
func TestInterpreter(t *testing.T) {
	env := func() (dir, packages string) {
		dir = filepath.Join(t.TempDir(), "env")
		if out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		all, err := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages"))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return dir, all[0]
	}
	digest := func(p *Interpreter) string {
		d, err := p.Digest(t.Context())
		if err != nil || d == "" || d == "none" {
			t.Fatalf("digest %q, %v", d, err)
		}
		return d
	}
	dir, packages := env()
	other, _ := env()
	p := &Interpreter{Env: dir}
	empty := digest(p)
	if got := digest(&Interpreter{Env: other}); got != empty {
		t.Errorf("the same Python in another folder has the digest %s, want %s", got, empty)
	}
	if err := os.Mkdir(filepath.Join(packages, "torch-2.9.0.dist-info"), 0o755); err != nil {
		t.Fatal(err)
	}
	installed := digest(p)
	if installed == empty {
		t.Error("a package was installed, and the digest is the same")
	}
	if err := os.Rename(filepath.Join(packages, "torch-2.9.0.dist-info"), filepath.Join(packages, "torch-2.9.1.dist-info")); err != nil {
		t.Fatal(err)
	}
	if got := digest(p); got == installed || got == empty {
		t.Error("a package was brought up to date, and the digest is the same")
	}
	if got, err := (&Interpreter{Env: t.TempDir()}).Digest(t.Context()); got != "none" || err != nil {
		t.Errorf("without Python the digest is %q, %v", got, err)
	}
}

// The python3 in PATH is another one as soon as another is found there, and some time after a shim starts another.
func TestInterpreterInPath(t *testing.T) {
	a, b, links, bin := withPython(t), withPython(t), t.TempDir(), t.TempDir()
	in := func(dir string) string { return filepath.Join(dir, "bin", "python3") }
	digest := func(p *Interpreter) string {
		t.Helper()
		d, err := p.Digest(t.Context())
		if err != nil || d == "none" {
			t.Fatalf("digest %q, %v", d, err)
		}
		return d
	}
	ofA, ofB := digest(&Interpreter{Env: a}), digest(&Interpreter{Env: b})
	link := func(to string) {
		t.Helper()
		at := filepath.Join(links, "python3")
		if err := errors.Join(os.RemoveAll(at), os.Symlink(to, at)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", strings.Join([]string{bin, links, os.Getenv("PATH")}, ":"))
	link(in(a))
	p := &Interpreter{}
	if got := digest(p); got != ofA {
		t.Fatalf("digest %s, want %s", got, ofA)
	}
	link(in(b))
	if got := digest(p); got != ofB {
		t.Errorf("the link leads elsewhere, and the digest is %s, want %s", got, ofB)
	}
	if err := os.Symlink(in(a), filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	if got := digest(p); got != ofA {
		t.Errorf("another comes first in PATH, and the digest is %s, want %s", got, ofA)
	}
	program, err := os.ReadFile(in(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in(a), program, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if got := digest(p); got != ofA {
		t.Errorf("a shim was asked again at once: %s, want %s", got, ofA)
	}
	p.asked = p.asked.Add(-2 * shimAge)
	if got := digest(p); got != ofB {
		t.Errorf("the shim starts another, and the digest is %s, want %s", got, ofB)
	}
	started, err := exec.Command(in(a), "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(t.TempDir(), "python3")
	if err := os.Symlink(strings.TrimSpace(string(started)), first); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(first))
	if digest(p); p.shim {
		t.Error("an interpreter is taken for a shim")
	}
}

func TestPythons(t *testing.T) {
	own, beside, empty := withPython(t), withPython(t), t.TempDir()
	tests := []struct {
		name, submitted, want string
		named                 bool
	}{
		{name: "none beside the pipeline", want: own},
		{name: "beside the pipeline", submitted: beside, want: beside},
		{name: "on another machine", submitted: empty, want: own},
		{name: "named for all", submitted: beside, named: true, want: own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Pythons{Own: own, Named: tt.named}
			if got := p.For(tt.submitted); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			got, err := p.Digest(t.Context(), tt.submitted)
			want, wantErr := (&Interpreter{Env: tt.want}).Digest(t.Context())
			if got != want || err != nil || wantErr != nil {
				t.Errorf("digest %q, %v; want %q, %v", got, err, want, wantErr)
			}
		})
	}
}

// withPython makes a folder with a python3 that has a package of its own.
func withPython(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "extra", filepath.Base(filepath.Dir(dir))+"_"+filepath.Base(dir)+"-1.0.dist-info"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\nPYTHONPATH=" + filepath.Join(dir, "extra") + " exec /usr/bin/python3 \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "bin", "python3"), []byte(program), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}
