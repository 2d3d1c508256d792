package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
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
	// script in the folder is the program; clean.py if it is empty.
	script string
}

var (
	datatrove = peer{name: "datatrove", version: "datatrove 0.10.1", exact: true}
	duckDB    = peer{name: "duckdb", version: "duckdb 2.0.0", exact: true}
	typedSQL  = peer{name: "duckdb", version: "duckdb 2.0.0", exact: true, script: "typed.py"}
	dolma     = peer{name: "dolma", version: "dolma 1.2.1"} // by a Bloom filter
)

// ready installs the peer, unless the same versions were installed before.
func (p peer) ready(ctx context.Context) (program, error) {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	home, err := compare.Install(ctx, p.name, filepath.Join(sources, p.name), compare.Python)
	if err != nil {
		return program{}, &skipped{fmt.Errorf("%s cannot be installed: %w", p.name, err)}
	}
	ready := program{name: p.name, command: func(ctx context.Context, in, out string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(home, "venv/bin/python"), filepath.Join(home, cmp.Or(p.script, "clean.py")), in, out)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(out), "TMPDIR=" + filepath.Dir(out), "HF_HUB_OFFLINE=1"}
		return cmd, nil
	}}
	if p.exact {
		ready.rows = countLines
	}
	return ready, nil
}
