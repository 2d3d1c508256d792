package agent

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

const hidden = "deep/quartz+9471 sphinx?vow"

// secretive is a node whose environment has a secret, and a step's input for it.
func secretive(t *testing.T, secrets map[string]string) (*node, record.StepInput) {
	t.Helper()
	t.Setenv("DEEP_TOKEN", hidden)
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := s.PutTree(t.Context(), artifact.Workspace, t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := record.StepInput{Run: "r", Step: "s", Kind: spec.KindTrain, Secrets: secrets, Workspace: workspace}
	env := &spec.Environment{Name: "test", Secrets: map[string]spec.SecretSource{"token": {Env: "DEEP_TOKEN"}, "nowhere": {Env: "NOT_SET_AT_ALL"}}}
	if err := checkpoint.PutEnvironment(t.Context(), s, keyOf(in, 1), env); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{
		config: protocol.AgentConfig{Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1"},
		store:  s, log: slog.Default(), resolver: secret.NewResolver(), stallFloor: stallFloor,
	}
	return n, in
}

// lay prepares a generation that runs a script.
func (n *node) lay(t *testing.T, in record.StepInput, program string) (*prepared, error) {
	t.Helper()
	p := &prepared{key: keyOf(in, 1), seal: checkpoint.Seal{Generation: 1}}
	p.spec.Command = spec.Command{
		Command: []string{"bash", "-euc", program},
		Outputs: map[string]spec.OutputDecl{"said": {Type: "string"}},
	}
	if err := p.makeDirs(n.config); err != nil {
		t.Fatal(err)
	}
	return p, n.layOut(t.Context(), p, in)
}

// TestRanksKeepSecrets: a rank is given the secrets it asks for and no others, and their values are in nothing that it leaves behind.
func TestRanksKeepSecrets(t *testing.T) {
	const said = `; echo '{"said": "nothing"}' > "$SLUICE_OUTPUT_DIR/outputs.json"`
	asked := map[string]string{"TOKEN": "token"}
	tests := []struct {
		name, program string
		secrets       map[string]string
		code          int
		errType, says string
	}{
		{name: "told", program: `echo "it is $TOKEN"; printf %s "$TOKEN" | base64` + said, secrets: asked},
		{name: "broken", program: `echo "cannot log in with $TOKEN" >&2; exit 3`, secrets: asked, code: 3, says: "cannot log in with ***"},
		{
			name: "metrics", program: `echo "{\"step\":1,\"by\":\"$TOKEN\"}" >> "$SLUICE_METRICS"; echo '{"step":2}' >> "$SLUICE_METRICS"` + said,
			secrets: asked, errType: fault.User, says: "secret to $SLUICE_METRICS",
		},
		{
			name: "metrics of a broken one", program: `echo "{\"step\":1,\"by\":\"$TOKEN\"}" >> "$SLUICE_METRICS"; exit 3`,
			secrets: asked, code: 3,
		},
		{
			name: "outputs", program: `echo "{\"said\": \"$TOKEN\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"`,
			secrets: asked, says: `output "said" contains the value of a secret`,
		},
		{
			name: "outputs of another type", program: `echo "{\"said\": {\"x\": \"$TOKEN\"}}" > "$SLUICE_OUTPUT_DIR/outputs.json"`,
			secrets: asked, says: `{"x":"***"}`,
		},
		{name: "not asked for", program: `test -z "${DEEP_TOKEN+x}${TOKEN+x}"` + said},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, in := secretive(t, tt.secrets)
			p, err := n.lay(t, in, tt.program)
			if err != nil {
				t.Fatal(err)
			}
			n.prepared = p
			r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-r.done:
			case <-time.After(time.Minute):
				r.kill()
				<-r.done
				t.Fatal("the rank does not end")
			}
			if fault.TypeOf(r.err) != tt.errType || r.ended.Code != tt.code {
				t.Errorf("it ended with code %d, %v", r.ended.Code, r.err)
			}
			if all := r.ended.Tail + fault.Message(r.err) + r.ended.Unfinished; !strings.Contains(all, tt.says) || strings.Contains(all+fmt.Sprint(r.ended.Outputs), "quartz") {
				t.Errorf("it says %q", all)
			}
			path := training.MetricsPath(p.key, 0)
			raw, err := os.ReadFile(filepath.Join(n.config.LogDir, path))
			if err != nil || bytes.Contains(raw, []byte("quartz")) || bytes.Contains(raw, []byte("ZGVlcC9xdWFydHor")) {
				t.Errorf("%s: %q, %v", path, raw, err)
			}
			for info, err := range n.store.Driver().List(t.Context(), store.LogsPrefix) {
				if err != nil {
					t.Fatal(err)
				}
				chunk, err := n.store.Driver().Read(t.Context(), info.Key)
				if err != nil {
					t.Fatal(err)
				}
				if text := contentOf(t, chunk); strings.Contains(text, "quartz") || strings.Contains(text, "ZGVlcC9xdWFydHor") {
					t.Errorf("%s: %s", info.Key, text)
				}
				chunk.Close()
			}
			if strings.Contains(linesUpTo(t, r.metrics, 10), "quartz") {
				t.Error("the metrics to keep hold the secret")
			}
		})
	}
}

func contentOf(t *testing.T, r io.Reader) string {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestSecretIsMissing: what a node cannot find is nobody's to try again.
func TestSecretIsMissing(t *testing.T) {
	for name, says := range map[string]string{"nowhere": "NOT_SET_AT_ALL is not set for the process that reads it", "other": `no secret "other"`} {
		n, in := secretive(t, map[string]string{"TOKEN": name})
		if _, err := n.lay(t, in, "true"); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n, in := secretive(t, nil)
	in.Step = "another"
	if _, err := n.lay(t, in, "true"); fault.TypeOf(err) != fault.Infrastructure {
		t.Errorf("without an environment: %v", err)
	}
}
