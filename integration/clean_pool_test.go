package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/stepargs"
)

const ocrProgram = `import json, os, sys
for line in sys.stdin:
    row = json.loads(line)
    if row["n"] % 10 == 3: row["_drop"] = "three"
    if row["n"] % 10 == 7: row["_reject"] = "seven"
    row["text"] = os.environ["READ"]
    print(json.dumps(row))
print("read on this machine", file=sys.stderr)
`

// TestCleanOnPool: a cleaning on a node that is lost is done on the next, and makes what it makes beside the worker. Errors are those of a step
// beside the worker, with their types.
func TestCleanOnPool(t *testing.T) {
	steps := `params: {least: {type: int, default: 5}}
steps:
  fetch: {run: {script: 'mkdir -p "$SLUICE_OUTPUT_DIR/rows"; cp rows.jsonl "$SLUICE_OUTPUT_DIR/rows"', outputs: {rows: {type: dataset, path: rows}}}}
`
	after := map[string]string{"ocr": "fetch", "fails": "ocr_there"} // one after the other, so that it is known which node is lost
	for name, program := range map[string]string{"ocr": "ocr.py", "fails": "fails.py"} {
		for suffix, place := range map[string]string{"": "", "_there": "pool: one, resources: {memory: 2GiB}, "} {
			steps += fmt.Sprintf(`  %s%s:
    clean:
      {%sinputs: {rows: "${steps.fetch.rows}"}, read: "${inputs.rows.path}/*.jsonl", write: json, transforms: [
        {type: Filter, name: least, config: {keep: "row.n >= params.least"}},
        {type: Exec, name: read, config: {command: [python3, "%s"]}},
        {type: MaskPII, name: mask, config: {fields: [text], action: hash, key: PEPPER}}]}
    env: {READ: "by ann@example.com"}
    secrets: {PEPPER: token}
    needs: [%s]
`, name, suffix, place, program, after[name])
		}
	}
	s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 3600}}", steps)
	var rows strings.Builder
	for n := range 100 {
		fmt.Fprintf(&rows, "{\"n\": %d}\n", n)
	}
	write(t, filepath.Join(s.project, "rows.jsonl"), rows.String())
	write(t, filepath.Join(s.project, "ocr.py"), ocrProgram)
	write(t, filepath.Join(s.project, "fails.py"), "raise SystemExit('there is no model')\n")
	run := s.run()
	kill(t, run.awaitProcess(" "+stepargs.Clean), syscall.SIGSTOP) // so that the node is lost while it is at work
	kill(t, run.awaitProcess("sluice-agent"), syscall.SIGKILL)
	run.expect(3)
	record := s.show()
	var beside, there spec.CleanOutput
	record.Steps["ocr"].decode(t, &beside)
	record.Steps["ocr_there"].decode(t, &there)
	if diff := cmp.Diff(beside, there); diff != "" || beside.Rows.Kept != 76 || beside.Masked["email"] != 76 || beside.Dataset.IsZero() || beside.Statistics == "" {
		t.Errorf("made on the pool, not beside the worker, which made %+v (-beside +pool):\n%s", beside, diff)
	}
	if account, cost := s.accountOf("ocr_there"); account.Generations[len(account.Generations)-1].End != spec.EndFinished || cost <= 0 {
		t.Errorf("it cost %g, with generations %+v", cost, account.Generations)
	}
	s.start("logs", record.Run, "ocr_there").expect(0).says("read on this machine")
	failed, failedThere := record.Steps["fails"], record.Steps["fails_there"]
	if diff := cmp.Diff(failed.Error, failedThere.Error); diff != "" || failed.ErrorType != "user" || failedThere.ErrorType != "user" || failedThere.Attempts.Total != 1 {
		t.Errorf("a %s error after %d attempts, beside the worker a %s error (-beside +pool):\n%s",
			failedThere.ErrorType, failedThere.Attempts.Total, failed.ErrorType, diff)
	}
	s.run().expect(3)
	if again := s.show().Steps["ocr_there"]; again.ReusedFrom != record.Run {
		t.Error("another run does it again")
	}
}
