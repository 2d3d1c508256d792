// Command clean measures what cleaning costs: the same rows are cleaned in the same way by sluice, as a clean step runs it; by a plain
// loop in Go, which is the floor; and by other programs. README.md says what exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

// options are the flags.
type options struct {
	program string
	mib     int
	samples int
	peers   bool
	only    string
}

func main() {
	var o options
	floor := flag.String("floor", "", "be the floor: do this task, read from the first argument and write to the second")
	flag.StringVar(&o.program, "sluice", "bin/sluice", "the sluice that is measured")
	flag.IntVar(&o.mib, "mib", 1024, "size of the inputs")
	flag.IntVar(&o.samples, "samples", 3, "how often each is measured")
	flag.BoolVar(&o.peers, "peers", true, "measure other programs too; those that are missing are installed under "+compare.Cache)
	flag.StringVar(&o.only, "only", "", "measure one task alone: docs, lines, mail, exact, minhash or typed")
	flag.Parse()
	compare.Main(func(ctx context.Context) error {
		if *floor != "" {
			return runFloor(*floor, flag.Arg(0), flag.Arg(1))
		}
		return run(ctx, o)
	})
}

func run(ctx context.Context, o options) (err error) {
	if o.program, err = compare.Program(o.program); err != nil {
		return err
	}
	if err := os.MkdirAll(compare.Cache, 0o777); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(compare.Cache, "clean-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	b := bench{options: o, dir: dir}
	for _, t := range []struct {
		name    string
		measure func(context.Context) error
	}{{"docs", b.docs}, {"lines", b.lines}, {"mail", b.mail}, {"exact", b.exact}, {"minhash", b.minhash}, {"typed", b.typed}} {
		if o.only != "" && o.only != t.name {
			continue
		}
		if err := t.measure(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if skip := (*skipped)(nil); errors.As(err, &skip) {
			compare.Say("%s is skipped: %v", t.name, skip)
		} else if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// bench is one run of the whole.
type bench struct {
	options
	dir string // of inputs and outputs, which are there while they are needed
}

// skipped is the error of what cannot be measured here.
type skipped struct{ err error }

func (s *skipped) Error() string { return s.err.Error() }
func (s *skipped) Unwrap() error { return s.err }
