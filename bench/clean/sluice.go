package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines"
)

// shards that sluice writes.
const shards = 8

// The least characters of a text that is kept.
const (
	minDocument = 500
	minLine     = 20
)

// chains are the tasks as one writes them down for sluice, between the transform that reads and the one that writes.
var chains = map[string][]node{
	"docs":  {normalizeText("text"), atLeast(minDocument), exactBy("text")},
	"lines": {normalizeText("text"), atLeast(minLine), exactBy("text")},
	"mail": {
		{Type: "DecodeMail", Config: transform.DecodeMail{Field: "text"}},
		normalizeText("subject", "body"),
		{Type: "Filter", Config: transform.Filter{Keep: `row.body != ""`}},
		exactBy("body"),
	},
	"exact": {exactBy("text")},
	"typed": {
		{"Filter", map[string]any{"keep": `row.price > 9.99 && row.at >= timestamp("2021-01-01T00:00:00Z")`}},
		{"Deduplicate", map[string]any{"fields": []string{"customer", "day"}, "order_by": "row.at"}},
		{"Combine", map[string]any{"group_by": []string{"day"}, "combine": map[string]any{
			"n": map[string]any{"fn": "count"}, "total": map[string]any{"value": "row.price", "fn": "sum"}, "latest": map[string]any{"value": "row.at", "fn": "max"},
		}}},
	},
	"minhash": {{"Deduplicate", map[string]any{"method": "minhash", "fields": []string{"text"}, "order_by": "row.id"}}},
}

type node struct {
	Type   string `json:"type"`
	Config any    `json:"config"`
}

func normalizeText(fields ...string) node {
	return node{"NormalizeText", transform.NormalizeText{Fields: fields}}
}

func atLeast(size int) node {
	return node{"Filter", transform.Filter{Keep: spec.Expr(fmt.Sprintf("row.text.size() >= %d", size))}}
}

func exactBy(field string) node {
	return node{"Deduplicate", map[string]any{"fields": []string{field}}}
}

// sluice does a task: it is the process that a clean step starts.
func (b bench) sluice(task string) program {
	return program{rows: countLines, command: func(ctx context.Context, in, out string) (*exec.Cmd, error) {
		reader, files := "ReadFromJson", "*.jsonl"
		if task == "typed" {
			reader, files = "ReadFromParquet", "*.parquet"
		}
		chain := append([]node{{reader, map[string]any{"path": filepath.Join(in, files)}}}, chains[task]...)
		chain = append(chain, node{"WriteToJson", map[string]any{"shards": shards}})
		text, err := json.Marshal(map[string]any{"transforms": chain})
		if err != nil {
			return nil, err
		}
		dir := filepath.Dir(out)
		job := pipelines.Job{OutputDir: out, DeadLetterDir: filepath.Join(dir, "rejected"), WorkDir: filepath.Join(dir, "work")}
		if err := json.Unmarshal(text, &job.Spec); err != nil {
			return nil, err
		}
		stdin, err := json.Marshal(job)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, b.program, pipelines.Arg)
		cmd.Stdin = bytes.NewReader(stdin)
		return cmd, os.Mkdir(job.WorkDir, 0o777)
	}}
}

// plainLoop does a task as runFloor does.
func plainLoop(task string) program {
	return program{name: "floor", rows: countLines, command: func(ctx context.Context, in, out string) (*exec.Cmd, error) {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(ctx, exe, "-floor", task, in, out), nil
	}}
}

// countLines counts the rows of a folder, of any depth.
func countLines(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".jsonl" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewReaderSize(f, 1<<20)
		for {
			chunk, err := lines.ReadSlice('\n')
			switch {
			case err == nil:
				n++
			case errors.Is(err, bufio.ErrBufferFull):
			case len(chunk) > 0:
				return fmt.Errorf("%s: the last line is cut off", path)
			default:
				return nil
			}
		}
	})
	return n, err
}
