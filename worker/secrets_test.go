package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/proxy"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/logtest"
	"github.com/sluiceml/sluice/store/record"
)

// guarded does with a secret what programs do. The step `use` holds it while the test looks at the processes.
const guarded = `name: guarded
params: {gate: {type: string}}
steps:
  use:
    run: {script: 'test "$TOKEN" = "$(cat "$GATE/value")"; touch "$GATE/holds"; until test -e "$GATE/go"; do sleep 0.05; done'}
    env: {GATE: "${params.gate}"}
    secrets: {TOKEN: token}
  tell:
    run:
      script: |
        echo "the token is $TOKEN"
        printf %s "$TOKEN" | base64
        printf '%s' "${TOKEN:0:20}"; sleep 0.1; printf '%s\n' "${TOKEN:20}" >&2
        curl() { printf 'Authorization: Basic %s\n' "$(printf 'user:%s' "$TOKEN" | base64 -w0)"; }; curl
        echo "{\"said\": \"nothing\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"
      outputs: {said: {type: string}}
    secrets: {TOKEN: token}
  break_down:
    run: {script: 'echo "cannot log in with $TOKEN" >&2; exit 3'}
    secrets: {TOKEN: token}
    continue_on_error: true
  leave:
    run:
      script: 'echo "{\"n\": \"$TOKEN\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"'
      outputs: {n: {type: int}}
    secrets: {TOKEN: token}
    continue_on_error: true
  pass_on:
    run:
      script: 'echo "{\"said\": \"it is $TOKEN\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"'
      outputs: {said: {type: string}}
    secrets: {TOKEN: token}
    continue_on_error: true
  measure:
    evaluate: {command: [bash, -c, 'echo "{\"$TOKEN\": 2}" >> "$SLUICE_METRICS"'], metrics: [f1]}
    secrets: {TOKEN: token}
    continue_on_error: true
  unasked:
    run: {script: 'test -z "${DEEP_TOKEN+x}"; test -z "${TOKEN+x}"; ! env | grep -q "$(cat "$GATE/value")"'}
    env: {GATE: "${params.gate}"}
  missing:
    run: {script: "true"}
    secrets: {TOKEN: nowhere}
    continue_on_error: true
`

// TestSecretsStayInTheStep: whatever a program does with a secret, its value is in no history, record, log, error or argument.
func TestSecretsStayInTheStep(t *testing.T) {
	const value = "deep/quartz+9471 sphinx?vow"
	s, gate := openWith(t, ""), t.TempDir()
	t.Setenv("DEEP_TOKEN", value)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(gate, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("value")
	pipeline := project(t, guarded, map[string]string{
		"environment.yaml": "sluice: environment/v1\nname: test\nsecrets: {token: {env: DEEP_TOKEN}, nowhere: {env: NOT_SET_AT_ALL}}\n",
	})
	run := submit(t, s, control.SubmitRequest{
		PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml"), Params: map[string]string{"gate": gate},
	}).Run
	await(t, "the step that holds the secret", func() bool {
		_, err := os.Stat(filepath.Join(gate, "holds"))
		return err == nil
	})
	for path, line := range commandLines(t) {
		if bytes.Contains(line, []byte(value)) {
			t.Errorf("%s holds the secret: %q", path, line)
		}
	}
	write("go")
	_, record := wait(t, s, run)

	wantSteps(t, record)
	history := decodedHistory(t, s, contract.RunWorkflowID(run))
	if !strings.Contains(history, "cannot log in with ***") {
		t.Error("the history does not hold the masked error: nothing is shown by what is not in it")
	}
	for _, form := range []string{
		value, value[:20], base64.StdEncoding.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte("user:" + value)),
		url.QueryEscape(value), url.PathEscape(value),
	} {
		if strings.Contains(history, form) {
			t.Errorf("the history holds %q", form)
		}
		if inFiles(t, s.Dir, "", form) {
			t.Errorf("the state folder holds %q", form)
		}
	}
	var logged []string
	for _, l := range logtest.Lines(t, s.Store, run, "tell", logtest.Everything) {
		logged = append(logged, l.Text)
	}
	if len(logged) < 3 || !slices.Equal(logged[:3], []string{"the token is ***", "***", "***"}) {
		t.Errorf("the log says %q", logged)
	}
}

// wantSteps compares how the steps of guarded ended.
func wantSteps(t *testing.T, record record.Run) {
	t.Helper()
	type end struct {
		status        spec.Status
		errType, says string
	}
	want := map[string]end{
		"use": {status: spec.StatusSucceeded}, "tell": {status: spec.StatusSucceeded}, "unasked": {status: spec.StatusSucceeded},
		"break_down": {spec.StatusFailed, fault.User, "cannot log in with ***"},
		"leave":      {spec.StatusFailed, fault.User, "outputs.json holds the text \"***\""},
		"pass_on":    {spec.StatusFailed, fault.User, `output "said" contains the value of a secret`},
		"measure":    {spec.StatusFailed, fault.User, "***"},
		"missing":    {spec.StatusFailed, fault.Invalid, "TOKEN: secret nowhere: the environment variable NOT_SET_AT_ALL is not set"},
	}
	for _, step := range record.Steps {
		w := want[step.Step]
		if step.Status != w.status || step.ErrorType != w.errType || !strings.Contains(step.Error, w.says) {
			t.Errorf("step %s ended as %s: %s: %s", step.Step, step.Status, step.ErrorType, step.Error)
		}
		delete(want, step.Step)
	}
	if len(want) > 0 {
		t.Errorf("steps without a record: %v", want)
	}
}

// commandLines are the arguments of every process on this machine.
func commandLines(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d processes: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil { // processes come and go
			all[path] = line
		}
	}
	if !slices.ContainsFunc(paths, func(p string) bool { return bytes.Contains(all[p], []byte("holds")) }) {
		t.Fatal("the program that holds the secret is not among the processes")
	}
	return all
}

// decodedHistory is all that a workflow's history says, as a worker reads it.
func decodedHistory(t *testing.T, s *control.Session, workflow string) string {
	t.Helper()
	data := s.Codec.DataConverter()
	var all strings.Builder
	events := s.Client.GetWorkflowHistory(t.Context(), workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		err = proxy.VisitPayloads(context.Background(), event, proxy.VisitPayloadsOptions{
			Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
				for _, p := range payloads {
					all.WriteString(data.ToString(p) + "\n")
				}
				return payloads, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(protojson.Format(event) + "\n")
	}
	return all.String()
}
