// Command engine measures what the engine costs: against bare Temporal on the same embedded server in the same process; as a person
// meets it, who runs the program in an empty folder; and against other engines, each as it is used on one machine. README.md says what
// exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"flag"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

// samples of each figure; one more goes before them to warm up.
const samples = 7

func main() {
	program := flag.String("sluice", "bin/sluice", "the sluice whose start is measured")
	others := flag.Bool("peers", true, "measure other engines too; those that are missing are installed under "+compare.Cache)
	flag.Parse()
	compare.Main(func(ctx context.Context) error { return run(ctx, *program, *others) })
}

func run(ctx context.Context, program string, others bool) error {
	if err := measureEngine(ctx); err != nil {
		return err
	}
	if err := measureStart(ctx, program); err != nil {
		return err
	}
	if err := measureSteps(ctx, program); err != nil {
		return err
	}
	if err := measureNoop(ctx, program); err != nil {
		return err
	}
	if !others {
		return nil
	}
	for _, p := range peers {
		if err := p.compare(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			compare.Say("%s is skipped: %v", p.name, err)
		}
	}
	return nil
}
