package data

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
)

// verifiedData is what `data verify` found.
type verifiedData struct {
	store.Verified
	// UsedBy lists what refers to each damaged or missing file, for people.
	UsedBy map[string][]string `json:"used_by"`
	// Removed are the damaged files that were removed.
	Removed []string `json:"removed"`
}

// usersShown is how many of those that refer to a file are printed: each of many runs may have reused it.
const usersShown = 5

func newDataVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the files in the store against their digests",
		Long: `Read every file in the store and compare it with its digest, and find files
that an artifact refers to but that are missing. If there are damaged or
missing files, the exit code is 1. Each is listed with what refers to it: the
outputs of steps, published versions, and the submitted folders of runs.

Nothing is changed without --remove, which removes the damaged files. A result
that lacks a file is not reused, so the next run, or ` + "`sluice rerun RUN`" + `,
executes its step again and stores the files that it produces. A result that
cannot be produced again, such as a model with other random numbers, stays
incomplete: use another version, or copy the damaged file before you remove it.`,
		Example: `  sluice data verify
  sluice data verify --format json
  sluice data verify --remove`,
		Args: cobra.NoArgs,
	}
	format := kit.AddFormat(cmd)
	remove := cmd.Flags().Bool("remove", false, "remove the damaged files, so that they are stored again when their steps run again")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		said := time.Now()
		checked, err := s.Verify(cmd.Context(), func(v store.Verified) {
			if time.Since(said) < sayEvery {
				return
			}
			said = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "sluice: %s read, %s\n", human.Plural(v.Blobs, "file"), human.Bytes(v.Bytes)) //nolint:errcheck // it goes on
		})
		if err != nil {
			return err
		}
		found := verifiedData{Verified: checked, Removed: []string{}}
		if found.UsedBy, err = control.UsersOf(cmd.Context(), s, slices.Concat(found.Damaged, found.Missing)); err != nil {
			return err
		}
		if *remove {
			if found.Removed, err = s.RemoveDamaged(cmd.Context(), found.Damaged); err != nil {
				return err
			}
		}
		err = kit.Print(cmd, *format, found, found.text)
		if err == nil && len(found.Damaged)+len(found.Missing) > 0 {
			err = kit.ExitWith(kit.ExitInfrastructure)
		}
		return err
	}
	return cmd
}

func (v verifiedData) text(out io.Writer) error {
	list := func(what string, digests []string) {
		for _, digest := range digests {
			fmt.Fprintln(out, what, digest) //nolint:errcheck // the last line has the error
			users := v.UsedBy[digest]
			for _, user := range users[:min(usersShown, len(users))] {
				fmt.Fprintln(out, "  "+user) //nolint:errcheck // the last line has the error
			}
			switch {
			case len(users) == 0:
				fmt.Fprintln(out, "  nothing refers to it") //nolint:errcheck // the last line has the error
			case len(users) > usersShown:
				fmt.Fprintf(out, "  and %d more (`--format json` lists them)\n", len(users)-usersShown) //nolint:errcheck // the last line has the error
			}
		}
	}
	list("damaged", v.Damaged)
	list("missing", v.Missing)
	fmt.Fprintf(out, "%s read, %s: %d damaged, %d missing\n", human.Plural(v.Blobs, "file"), human.Bytes(v.Bytes), //nolint:errcheck // the last line has the error
		len(v.Damaged), len(v.Missing))
	var err error
	switch left := len(v.Damaged) - len(v.Removed); {
	case len(v.Removed) > 0:
		_, err = fmt.Fprintf(out, "removed %s; the next run, or `sluice rerun RUN`, executes the steps that made them again\n",
			human.Plural(int64(len(v.Removed)), "damaged file"))
	case left > 0:
		_, err = fmt.Fprintln(out, "help: `sluice data verify --remove` removes the damaged files; the next run, or `sluice rerun RUN`, then executes the steps that made them again")
	case len(v.Missing) > 0:
		_, err = fmt.Fprintln(out, "help: the next run, or `sluice rerun RUN`, executes the steps that made the missing files again")
	}
	return err
}
