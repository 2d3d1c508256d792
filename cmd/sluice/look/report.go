package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// NewReport makes `sluice report`.
func NewReport() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write a report of a run as one HTML page",
		Long: `Write a report of a run as one HTML page that needs neither network nor
scripts: the graph, the gates with the values they evaluated, what cleaning
dropped and why, the loss curve with its interruptions, a comparison of the
compile variants, and the tests of a rollout. A run that has not ended is shown
as it is now, with what it waits for.`,
		Example: `  sluice report
  sluice report spam-filter -o spam.html`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: kit.CompleteRuns,
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write, - for standard output (default: RUN.html; in a step, reports/RUN.html in the state folder)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, run, err := kit.FindRun(cmd, args)
		if err != nil {
			return err
		}
		l, err := refresh(cmd, &run)
		if err != nil {
			return err
		}
		data, err := collect(cmd.Context(), s, run)
		if err != nil {
			return err
		}
		data.Waits, data.Note = l.waits, l.note()
		for _, a := range l.waiting {
			text, command := view.Question(a, data.Now)
			data.Waiting = append(data.Waiting, report.Question{Text: text, Command: command})
		}
		if file == "-" || file != "" && kit.IsStdout(file) {
			return report.Write(cmd.OutOrStdout(), data)
		}
		if file == "" {
			if file, err = reportFile(cmd, run.Run); err != nil {
				return err
			}
		}
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return kit.Invalidf("%s is a folder: use the path of a file, such as %s", file, filepath.Join(file, run.Run+".html"))
		}
		if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
			return kit.Invalidf("the folder %s does not exist", filepath.Dir(file))
		}
		var page bytes.Buffer
		if err := report.Write(&page, data); err != nil {
			return err
		}
		if err := kit.WriteFile(file, page.Bytes()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
		return err
	}
	return cmd
}

// reportFile is where a report goes that is given no place: the working folder, but not that of a step, which is gone with it.
func reportFile(cmd *cobra.Command, run string) (string, error) {
	if os.Getenv("SLUICE_OUTPUT_DIR") == "" {
		return run + ".html", nil
	}
	dir := filepath.Join(kit.StateDir(cmd), "reports")
	return filepath.Join(dir, run+".html"), os.MkdirAll(dir, 0o755)
}

// reportedInstances is how many of a step's instances a report lists.
const reportedInstances = 500

// collect reads what a report needs beside the run's records.
func collect(ctx context.Context, s *store.Store, run record.Run) (report.Data, error) {
	data := report.Data{Run: run.RunRecord, Steps: run.Steps, Curves: map[string][]report.Point{}, Instances: map[string]report.Instances{}, Now: time.Now()}
	for _, step := range run.Steps {
		if step.Of > 0 {
			all, total, err := record.LoadInstances(ctx, s, run.Run, step.Step, reportedInstances)
			if err != nil {
				return data, err
			}
			data.Instances[step.Step] = report.Instances{Records: all, Total: total}
			continue
		}
		curve, err := report.LossCurve(step)
		if err != nil {
			return data, fmt.Errorf("outputs of %s: %w", step.Step, err)
		}
		if curve == "" {
			continue
		}
		var points []report.Point
		if err := record.ReadBlob(ctx, s, curve, &points); err != nil {
			return data, fmt.Errorf("loss curve of %s: %w", step.Step, err)
		}
		data.Curves[step.Step] = points
	}
	return data, nil
}
