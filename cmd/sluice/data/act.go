package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

func newDataCheckout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkout DATASET DIR",
		Short: "Write a version of a dataset or model to a folder",
		Long: `Write a version of a dataset or model, or an output of a step, to a folder.
Every file is checked against its digest, and the folder only appears when it is
complete. The folder must not exist, or be empty.`,
		Example: `  sluice data checkout reviews data/
  sluice data checkout reviews@golden data/
  sluice data checkout reviews-20260301-120000/clean data/
  sluice data checkout reviews-20260301-120000/clean.dead_letter rejected/`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeData(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		v, err := findData(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 {
			return kit.Invalidf("%s is not empty\nhelp: use a folder that does not exist or is empty", args[1])
		}
		if err := s.Fetch(cmd.Context(), v.Artifact, args[1]); errors.Is(err, store.ErrExists) {
			return kit.Invalidf("%s", err)
		} else if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s of %s\n", args[1], artifact.ShortVersion(v.Artifact.Digest),
			human.Plural(int64(v.Artifact.Files), "file"), human.Bytes(v.Artifact.Bytes))
		return err
	}
	return cmd
}

func newDataRollback() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback NAME VERSION",
		Short: "Make an earlier version of a dataset or model the current one",
		Long: `Make an earlier version of a dataset or model the current one, or a later one
again. No version is removed. Runs that start from now on use this version and
compare with it; open runs continue with the version that they started with. The
rollback is in effect until a step publishes a new version under the name.`,
		Example: `  sluice data rollback reviews 1f0a
  sluice data rollback reviews golden`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeData(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := dataStore(cmd)
			if err != nil {
				return err
			}
			v, err := findVersion(cmd.Context(), s, args[0], args[1])
			if err != nil {
				return err
			}
			return rollBack(cmd, s, v, "")
		},
	}
}

// rollBack makes a version the current one of its name, and says so.
func rollBack(cmd *cobra.Command, s *store.Store, v registry.Published, reason string) error {
	by, err := kit.Whoami()
	if err != nil {
		return err
	}
	if err := registry.PointTo(cmd.Context(), s, v, by, reason, time.Now().UTC()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is now %s, made by %s/%s\n", v.Name, artifact.ShortVersion(v.Artifact.Digest), v.Run, v.Step)
	return err
}

func newDataTag() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tag NAME[@VERSION] TAG",
		Short: "Tag a version of a dataset or model",
		Long: `Tag a version of a dataset or model, so that other commands can refer to it as
NAME@TAG. If another version has the tag, the tag is moved, and the command
reports it. A tag cannot look like the beginning of a version. --delete removes
the tag.`,
		Example: `  sluice data tag reviews golden
  sluice data tag reviews@1f0a before-relabelling
  sluice data tag reviews golden --delete`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeData(1),
	}
	remove := cmd.Flags().Bool("delete", false, "remove the tag")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		name, tag := args[0], args[1]
		if strings.Contains(name, "/") {
			return kit.Invalidf("%s is not published: only versions of published names can be tagged", name)
		}
		if !artifact.FitsTag(tag) {
			return kit.Invalidf("%q is not a valid tag: use letters, digits and . _ -, 64 at most", tag)
		}
		if *remove {
			name, _, _ = strings.Cut(name, "@")
			v, err := findVersion(cmd.Context(), s, name, tag)
			if err != nil {
				return err
			}
			return registry.DeleteTag(cmd.Context(), s, v.Artifact.Type, v.Name, tag)
		}
		v, err := findData(cmd.Context(), s, name)
		if err != nil {
			return err
		}
		was, err := putTag(cmd.Context(), s, v, tag)
		if err != nil || was == "" || was == v.Artifact.Digest {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s@%s was %s and is now %s\n", v.Name, tag, artifact.ShortVersion(was), artifact.ShortVersion(v.Artifact.Digest))
		return err
	}
	return cmd
}

// putTag gives a version a tag, and returns the digest of the version that had it, if one had.
func putTag(ctx context.Context, s *store.Store, v registry.Published, tag string) (was string, err error) {
	if artifact.LooksLikeVersion(tag) {
		return "", kit.Invalidf("%q is not a valid tag: it looks like the beginning of a version\nhelp: include a character other than the digits 0-9 and a-f", tag)
	}
	tags, err := registry.Tags(ctx, s, v.Artifact.Type, v.Name)
	if err != nil {
		return "", err
	}
	for _, t := range tags {
		if t.Tag == tag {
			was = t.Digest
		}
	}
	by, err := kit.Whoami()
	if err != nil {
		return "", err
	}
	given := registry.Tag{Name: v.Name, Tag: tag, Digest: v.Artifact.Digest, At: time.Now().UTC(), By: by}
	return was, registry.PutTag(ctx, s, v.Artifact.Type, given)
}
