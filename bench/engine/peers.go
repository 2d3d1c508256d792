package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/proc"
)

const (
	// sources has a folder for each peer: the program that measures its chain, and the versions of the packages that this takes.
	sources = "bench/engine/peers"
	// peerLimit bounds a peer's installation and measurement together.
	peerLimit = 10 * time.Minute
)

// peer is another engine.
type peer struct {
	name string
	// install is a shell script, run in a copy of the peer's folder.
	install string
	// interpreter of the program, in that copy where it has a slash, and program.
	interpreter, program string
}

var peers = []peer{python("prefect"), python("dagster"), python("airflow"), {
	name: "restate", interpreter: "node", program: "chain.js",
	install: "npm install --ignore-scripts --no-fund --no-audit",
}}

func python(name string) peer {
	return peer{
		name: name, interpreter: "venv/bin/python", program: "chain.py",
		install: compare.Python,
	}
}

// compare measures the peer's chain, and ours before and after it, so that a machine that grows busier is so for both. It shows the
// medians' ratio.
func (p peer) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, peerLimit, fmt.Errorf("it took more than %v", peerLimit))
	defer cancel()
	home, err := compare.Install(ctx, p.name, filepath.Join(sources, p.name), p.install)
	if err != nil {
		return fmt.Errorf("it cannot be installed: %w", err)
	}
	compare.Say("measure %s", p.name)
	before, err := measureChain(ctx)
	if err != nil {
		return err
	}
	theirs, err := p.measure(ctx, home)
	if err != nil {
		return err
	}
	after, err := measureChain(ctx)
	if err != nil {
		return err
	}
	ours, version := compare.Median(slices.Concat(before, after)), p.name+" "+theirs.Version
	return compare.Show(samples,
		compare.Figure{Name: fmt.Sprintf("engine/chain%d_%s_s", steps, p.name), Value: compare.Median(theirs.Seconds), Unit: "s", Against: version},
		compare.Figure{Name: fmt.Sprintf("engine/chain%d_vs_%s", steps, p.name), Value: ours / compare.Median(theirs.Seconds), Unit: "ratio", Against: version},
	)
}

// measured is what a peer's program writes to result.json.
type measured struct {
	Version string    `json:"version"`
	Seconds []float64 `json:"seconds"`
}

// measure runs the peer's program in a new folder, which is its home, too, so that it finds no configuration and leaves nothing behind.
func (p peer) measure(ctx context.Context, home string) (m measured, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	interpreter := p.interpreter
	if strings.Contains(interpreter, "/") {
		interpreter = filepath.Join(home, interpreter)
	}
	err = compare.Run(ctx, proc.Command{
		Path: interpreter, Args: []string{filepath.Join(home, p.program)}, Dir: dir,
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "DO_NOT_TRACK=1",
			"CHAIN_STEPS=" + strconv.Itoa(steps), "CHAIN_SAMPLES=" + strconv.Itoa(samples),
		},
	})
	if err != nil {
		return m, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, err
	}
	if len(m.Seconds) != samples {
		return m, fmt.Errorf("it measured %d times, want %d", len(m.Seconds), samples)
	}
	return m, nil
}
