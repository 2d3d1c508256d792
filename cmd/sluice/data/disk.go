package data

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
)

// sayEvery is how often a command that reads a whole store says how far it is.
const sayEvery = 2 * time.Second

// printDisk prints what everything that is kept takes.
func printDisk(cmd *cobra.Command, s *store.Store, format string) error {
	var mu sync.Mutex
	said := time.Now()
	all, err := kit.Disk(cmd.Context(), s, kit.StateDir(cmd), func(records int64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(said) >= sayEvery {
			said = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "sluice: %s read\n", human.Plural(records, "record")) //nolint:errcheck // it goes on
		}
	})
	if err != nil {
		return err
	}
	return kit.Print(cmd, format, all, func(out io.Writer) error { return diskText(out, all) })
}

func diskText(out io.Writer, all []kit.DiskUse) error {
	sum := kit.DiskUse{Kind: "in all"}
	err := kit.Table(out, "kind\tfiles\tsize\tfor gc", func(w io.Writer) {
		row := func(u kit.DiskUse) {
			free := "-"
			if u.Free > 0 {
				free = human.Bytes(u.Free)
			}
			kit.Row(w, u.Kind, human.Count(u.Files), human.Bytes(u.Bytes), free)
		}
		for _, u := range all {
			row(u)
			sum.Files, sum.Bytes, sum.Free = sum.Files+u.Files, sum.Bytes+u.Bytes, sum.Free+u.Free
		}
		row(sum)
	})
	if err != nil || sum.Free == 0 {
		return err
	}
	_, err = fmt.Fprintf(out, "`sluice data gc --checkpoints --yes` removes %s\n", human.Bytes(sum.Free))
	return err
}
