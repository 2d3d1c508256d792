package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sources has a folder for each peer: its program, and the versions of the packages that this takes.
const sources = "bench/clean/peers"

// installLimit bounds a peer's installation.
const installLimit = 10 * time.Minute

// peer is another program that cleans.
type peer struct {
	// name of its folder, and version that requirements.txt there pins.
	name, version string
	// exact says that it keeps the same rows.
	exact bool
}

var (
	datatrove = peer{name: "datatrove", version: "datatrove 0.10.1", exact: true}
	duckDB    = peer{name: "duckdb", version: "duckdb 2.0.0", exact: true}
)

// ready installs the peer, unless the same versions were installed before.
func (p peer) ready(ctx context.Context) (program, error) {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	home, err := filepath.Abs(filepath.Join(cache, p.name))
	if err != nil {
		return program{}, err
	}
	source, err := filepath.Abs(filepath.Join(sources, p.name))
	if err != nil {
		return program{}, err
	}
	want, err := os.ReadFile(filepath.Join(source, "requirements.txt"))
	if err != nil {
		return program{}, err
	}
	stamp := filepath.Join(home, ".installed")
	if have, err := os.ReadFile(stamp); err != nil || string(have) != string(want) {
		if err := p.install(ctx, home, source); err != nil {
			return program{}, &skipped{fmt.Errorf("%s cannot be installed: %w", p.name, err)}
		}
		if err := os.WriteFile(stamp, want, 0o600); err != nil {
			return program{}, err
		}
	}
	ready := program{name: p.name, command: func(ctx context.Context, in, out string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(home, "venv/bin/python"), filepath.Join(source, "clean.py"), in, out)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(out), "TMPDIR=" + filepath.Dir(out), "HF_HUB_OFFLINE=1"}
		return cmd, nil
	}}
	if p.exact {
		ready.rows = countLines
	}
	return ready, nil
}

func (p peer) install(ctx context.Context, home, source string) error {
	say("install %s into %s, once", p.name, filepath.Join(cache, p.name))
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o777); err != nil {
		return err
	}
	script := "python3 -m venv venv && venv/bin/pip install --no-input --disable-pip-version-check -r " + filepath.Join(source, "requirements.txt")
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = home
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-2000):])
	}
	return nil
}
