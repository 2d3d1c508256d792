package data

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

func newModelAlias() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alias MODEL ALIAS",
		Short: "Give a version of a model an alias, or move the alias to it",
		Long: `Give a version of a model an alias, so that other commands can refer to it as
NAME@ALIAS. If another version has the alias, the alias is moved, and the
command reports it. Who gave it and when is recorded. An alias cannot look like
the beginning of a version. --delete removes the alias.`,
		Example: `  sluice model alias spam champion
  sluice model alias spam@1f0a challenger
  sluice model alias spam challenger --delete`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeModels(1),
	}
	remove := cmd.Flags().Bool("delete", false, "remove the alias")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := modelStore(cmd)
		if err != nil {
			return err
		}
		model, alias := args[0], args[1]
		if !artifact.FitsTag(alias) {
			return kit.Invalidf("%q is not a valid alias: use letters, digits and . _ -, 64 at most", alias)
		}
		if *remove {
			name, _, _ := strings.Cut(model, "@")
			v, err := findModel(cmd.Context(), s, name+"@"+alias)
			if err != nil {
				return err
			}
			return registry.DeleteTag(cmd.Context(), s, v.Artifact.Type, v.Name, alias)
		}
		if artifact.LooksLikeVersion(alias) {
			return kit.Invalidf("%q is not a valid alias: it looks like the beginning of a version\nhelp: include a character other than the digits 0-9 and a-f", alias)
		}
		v, err := findModel(cmd.Context(), s, model)
		if err != nil {
			return err
		}
		was, err := putTag(cmd.Context(), s, v, alias)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s@%s is %s", v.Name, alias, artifact.ShortVersion(v.Artifact.Digest))
		if was != "" && was != v.Artifact.Digest {
			text = fmt.Sprintf("%s@%s was %s and is now %s", v.Name, alias, artifact.ShortVersion(was), artifact.ShortVersion(v.Artifact.Digest))
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}

func newModelRollback() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback NAME VERSION",
		Short: "Make an earlier version of a model the current one",
		Long: `Make an earlier version of a model the current one, or a later one again.
VERSION is a version or an alias. Runs that start from now on get it from
` + "`${models[\"NAME\"]}`" + `, until a step publishes a new version under the name; no
version is removed. What a target serves does not change: see
` + "`sluice rollout rollback`" + `.`,
		Example: `  sluice model rollback spam 1f0a
  sluice model rollback spam champion --reason "newer ones confuse invoices"`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeModels(1),
	}
	reason := cmd.Flags().String("reason", "", "reason, for the model's history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := modelStore(cmd)
		if err != nil {
			return err
		}
		v, err := findModel(cmd.Context(), s, args[0]+"@"+args[1])
		if err != nil {
			return err
		}
		return rollBack(cmd, s, v, *reason)
	}
	return cmd
}

// What an exported folder holds.
const (
	exportedModel   = "model"
	exportedCard    = "MODEL_CARD.md"
	exportedLineage = "lineage.json"
)

func newModelExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export MODEL DIR",
		Short: "Write a version of a model to a folder, with its card and lineage",
		Long: `Write a version of a model to a folder:

    model/           the model's files, each checked against its digest
    MODEL_CARD.md    the card that ` + "`sluice model show --card`" + ` prints
    lineage.json     what ` + "`sluice model show --format json`" + ` prints

The folder only appears when it is complete. It must not exist, or be empty.`,
		Example:           `  sluice model export spam@champion ./spam`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeModels(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := modelStore(cmd)
			if err != nil {
				return err
			}
			v, err := findModel(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			shown, err := showModel(cmd.Context(), s, v)
			if err != nil {
				return err
			}
			if err := exportModel(cmd.Context(), s, shown, filepath.Clean(args[1])); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s@%s, %s of %s\n", args[1], v.Name, shown.Version,
				human.Plural(int64(v.Artifact.Files), "file"), human.Bytes(v.Artifact.Bytes))
			return err
		},
	}
}

// exportModel writes a folder beside dir and renames it, so that dir is whole or not there.
func exportModel(ctx context.Context, s *store.Store, m shownModel, dir string) (err error) {
	taken := kit.Invalidf("%s exists and is not an empty folder\nhelp: use a folder that does not exist or is empty", dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 || errors.Is(err, syscall.ENOTDIR) {
		return taken
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := s.Fetch(ctx, m.Artifact, filepath.Join(temp, exportedModel)); err != nil {
		return err
	}
	var card, lineage bytes.Buffer
	if err := m.card(&card); err != nil {
		return err
	}
	encoder := json.NewEncoder(&lineage)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(m); err != nil {
		return err
	}
	for name, content := range map[string][]byte{exportedCard: card.Bytes(), exportedLineage: lineage.Bytes()} {
		if err := os.WriteFile(filepath.Join(temp, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := syscall.Rename(temp, dir); errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return taken
	} else if err != nil { // not os.Rename, which refuses to replace an empty folder
		return fmt.Errorf("rename %s to %s: %w", temp, dir, err)
	}
	return nil
}
