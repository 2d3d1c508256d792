package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

// docs measures normalization, a filter and exact deduplication of documents of about 2 KB: against the floor, and on a part of them
// against datatrove.
func (b bench) docs(ctx context.Context) error {
	in := filepath.Join(b.dir, "docs")
	if err := generate(in, b.mib, 2000, false); err != nil {
		return err
	}
	defer os.RemoveAll(in)
	if err := b.againstFloor(ctx, "docs", in); err != nil || !b.peers {
		return err
	}
	part, err := firstFiles(in)
	if err != nil {
		return err
	}
	return b.againstPeer(ctx, "docs", part, datatrove)
}

// lines measures the same for rows of about 100 bytes.
func (b bench) lines(ctx context.Context) error {
	in := filepath.Join(b.dir, "lines")
	if err := generate(in, b.mib, 60, false); err != nil {
		return err
	}
	defer os.RemoveAll(in)
	return b.againstFloor(ctx, "lines", in)
}

// mail measures decoding, normalization and exact deduplication of real mail.
func (b bench) mail(ctx context.Context) error {
	dir := filepath.Join(b.dir, "mail")
	if err := fetchMail(ctx, dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return b.againstFloor(ctx, "mail", filepath.Join(dir, "raw"))
}

// exact measures exact deduplication alone, which DuckDB is good at; on a part of the documents against dolma, too.
func (b bench) exact(ctx context.Context) error {
	in := filepath.Join(b.dir, "exact")
	if err := generate(in, b.mib, 2000, false); err != nil {
		return err
	}
	defer os.RemoveAll(in)
	if !b.peers {
		return b.againstFloor(ctx, "exact", in)
	}
	part, err := firstFiles(in)
	if err != nil {
		return err
	}
	return errors.Join(b.againstPeer(ctx, "exact", in, duckDB), b.againstPeer(ctx, "exact", part, dolma))
}

// typed measures a filter, an order and aggregates over a Parquet table with decimals, timestamps and dates, which DuckDB also makes.
func (b bench) typed(ctx context.Context) error {
	if !b.peers {
		return nil
	}
	theirs, err := typedSQL.ready(ctx)
	if err != nil {
		return err
	}
	in := filepath.Join(b.dir, "typed")
	table, err := theirs.command(ctx, "make", in)
	if err != nil {
		return err
	}
	table.Args = append(table.Args, strconv.Itoa(b.mib))
	if text, err := table.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	defer os.RemoveAll(in)
	return b.againstPeer(ctx, "typed", in, typedSQL)
}

// againstFloor shows the figures of a task, and how much faster it is than the floor.
func (b bench) againstFloor(ctx context.Context, task, in string) error {
	mb, err := sizeOf(in)
	if err != nil {
		return err
	}
	all, err := b.measure(ctx, task, in, b.sluice(task), plainLoop(task))
	if err != nil {
		return err
	}
	ours, floor := all[""], all["floor"]
	rss := task + "_rss_mb"
	if task == "docs" {
		rss = "rss_mb"
	}
	return compare.Show(b.samples,
		figure(task+"_mb_s", mb/ours.seconds, "MB/s", ""),
		figure(task+"_mb_s_core", mb/ours.cpu, "MB/s", ""),
		figure(task+"_floor_mb_s", mb/floor.seconds, "MB/s", ""),
		figure(task+"_vs_floor", floor.seconds/ours.seconds, "ratio", "plain loop in Go"),
		figure(rss, ours.mib, "MiB", ""),
		figure(task+"_floor_rss_mb", floor.mib, "MiB", ""),
	)
}

// againstPeer shows how much faster a task is than a peer does it.
func (b bench) againstPeer(ctx context.Context, task, in string, p peer) error {
	mb, err := sizeOf(in)
	if err != nil {
		return err
	}
	theirs, err := p.ready(ctx)
	if err != nil {
		return err
	}
	all, err := b.measure(ctx, task, in, b.sluice(task), theirs)
	if err != nil {
		return err
	}
	ours, other := all[""], all[p.name]
	return compare.Show(b.samples,
		figure(task+"_"+p.name+"_mb_s", mb/other.seconds, "MB/s", p.version),
		figure(task+"_"+p.name+"_rss_mb", other.mib, "MiB", p.version),
		figure(task+"_vs_"+p.name, other.seconds/ours.seconds, "ratio", p.version),
	)
}

func figure(name string, value float64, unit, against string) compare.Figure {
	return compare.Figure{Name: "clean/" + name, Value: value, Unit: unit, Against: against}
}

// firstFiles makes a folder beside another with some of its files alone.
func firstFiles(in string) (string, error) {
	part := in + "-part"
	if err := os.Mkdir(part, 0o777); err != nil {
		return "", err
	}
	for i := range partFiles {
		name := fmt.Sprintf("%02d.jsonl", i)
		if err := os.Link(filepath.Join(in, name), filepath.Join(part, name)); err != nil {
			return "", err
		}
	}
	return part, nil
}
