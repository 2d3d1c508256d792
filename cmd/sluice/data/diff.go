package data

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// dataDiff is how two datasets differ, as `data diff` shows it.
type dataDiff struct {
	Older  string                      `json:"older"`
	Newer  string                      `json:"newer"`
	Equal  bool                        `json:"equal"`
	Rows   columns.RowDiff             `json:"rows"`
	Schema *spec.SchemaChange          `json:"schema,omitempty"`
	Drift  map[string]spec.ColumnDrift `json:"drift,omitempty"`
}

func newDataDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLDER NEWER",
		Short: "Compare two datasets: rows, columns and drift",
		Long: `Compare two datasets: how many rows were added, removed and changed, which
columns, and how far the values of each column have drifted.

With --key, two rows are the same row if they have the same values in these
fields, and the row is changed if other fields differ. Without it whole rows
are compared, and none is reported as changed. Rows are streamed; the folder
for temporary files needs space for 33 bytes per row.`,
		Example: `  sluice data diff reviews@1f0a reviews --key id
  sluice data diff reviews@golden reviews-20260301-120000/clean --format json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeData(2),
	}
	format := kit.AddFormat(cmd)
	key := cmd.Flags().StringSlice("key", nil, "fields that identify a row")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		older, err := findData(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		newer, err := findData(cmd.Context(), s, args[1])
		if err != nil {
			return err
		}
		diff, err := diffData(cmd.Context(), s, older, newer, *key)
		if err != nil {
			return err
		}
		return kit.Print(cmd, *format, diff, diff.text)
	}
	return cmd
}

func diffData(ctx context.Context, s *store.Store, older, newer registry.Published, key []string) (dataDiff, error) {
	for _, v := range []registry.Published{older, newer} {
		if v.Artifact.Type != artifact.Dataset {
			return dataDiff{}, kit.Invalidf("%s is a %s, which has no rows to compare", v.Name, v.Artifact.Type)
		}
	}
	d := dataDiff{Older: older.Artifact.Digest, Newer: newer.Artifact.Digest, Equal: older.Artifact.Digest == newer.Artifact.Digest}
	before, err := describeData(ctx, s, older)
	if err != nil {
		return d, err
	}
	after, err := describeData(ctx, s, newer)
	if err != nil {
		return d, err
	}
	if d.Rows, err = columns.DiffRows(ctx, rowsOf(ctx, s, older), rowsOf(ctx, s, newer), before.Rows+after.Rows, key, os.TempDir()); err != nil {
		return d, err
	}
	if older.Statistics == "" || newer.Statistics == "" {
		return d, nil
	}
	was, err := engine.LoadProfile(ctx, s, older.Statistics)
	if err != nil {
		return d, err
	}
	is, err := engine.LoadProfile(ctx, s, newer.Statistics)
	if err != nil {
		return d, err
	}
	change := is.SchemaChange(was)
	d.Schema, d.Drift = &change, is.Drift(was)
	return d, nil
}

// maxLine bounds a row that is read back; none that is written is longer.
const maxLine = 64 << 20

// rowsOf reads the rows of a dataset.
func rowsOf(ctx context.Context, s *store.Store, v registry.Published) columns.Rows {
	return func(yield func([]byte) error) error {
		manifest, err := s.Manifest(ctx, v.Artifact)
		if err != nil {
			return err
		}
		for _, f := range manifest.Files {
			read := shardOf
			switch {
			case f.Path == "schema.json":
				continue
			case path.Ext(f.Path) == ".jsonl":
				read = linesOf
			}
			if err := read(ctx, s, f, yield); err != nil {
				return fmt.Errorf("%s: %s: %w", v.Name, f.Path, err)
			}
		}
		return nil
	}
}

// shardOf reads the rows of a file of any format, from a copy of it: some formats begin at their end.
func shardOf(ctx context.Context, s *store.Store, f artifact.File, yield func([]byte) error) (err error) {
	dir, err := os.MkdirTemp("", "sluice-rows-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := s.Blob(ctx, f.Digest)
	if err != nil {
		return err
	}
	defer r.Close()
	name := filepath.Join(dir, "rows"+path.Ext(f.Path))
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return contractInvalid(format.ReadShard(ctx, name, yield))
}

func linesOf(ctx context.Context, s *store.Store, f artifact.File, yield func([]byte) error) error {
	r, err := s.Blob(ctx, f.Digest)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := yield(lines.Bytes()); err != nil {
			return orDamaged(r, contractInvalid(err))
		}
	}
	return orDamaged(r, lines.Err())
}

// orDamaged returns, of an error about rows, why there is one when the store no longer has what was stored: only the end of a file tells.
func orDamaged(r io.Reader, err error) error {
	if err == nil {
		return nil
	}
	if _, rest := io.Copy(io.Discard, r); errors.Is(rest, store.ErrCorrupt) {
		err = rest
	}
	if errors.Is(err, store.ErrCorrupt) {
		return fault.New(fault.Infrastructure, err.Error()+"\nhelp: `sluice data verify` finds what else is damaged", err)
	}
	return err
}

// contractInvalid makes what is wrong with a row the user's to mend.
func contractInvalid(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return kit.Invalidf("%s", err)
}

func (d dataDiff) text(out io.Writer) error {
	if d.Equal {
		_, err := fmt.Fprintln(out, "equal: both are", artifact.ShortVersion(d.Newer))
		return err
	}
	err := kit.Table(out, artifact.ShortVersion(d.Older)+" -> "+artifact.ShortVersion(d.Newer), func(w io.Writer) {
		kit.Row(w, "rows added", human.Count(d.Rows.Added))
		kit.Row(w, "rows removed", human.Count(d.Rows.Removed))
		kit.Row(w, "rows changed", human.Count(d.Rows.Changed))
		kit.Row(w, "rows the same", human.Count(d.Rows.Same))
		if d.Schema == nil {
			return
		}
		for _, change := range []struct {
			what  string
			names []string
		}{{"columns added", d.Schema.Added}, {"columns removed", d.Schema.Removed}, {"columns retyped", d.Schema.Retyped}} {
			if len(change.names) > 0 {
				kit.Row(w, change.what, strings.Join(change.names, "; "))
			}
		}
	})
	if err != nil || len(d.Drift) == 0 {
		return err
	}
	fmt.Fprintln(out) //nolint:errcheck // the table has the error
	return kit.Table(out, "column\tpsi\tjs\tks", func(w io.Writer) {
		for _, name := range slices.Sorted(maps.Keys(d.Drift)) {
			c := d.Drift[name]
			kit.Row(w, name, fmt.Sprintf("%.4f", c.PSI), fmt.Sprintf("%.4f", c.JS), fmt.Sprintf("%.4f", c.KS))
		}
	})
}
