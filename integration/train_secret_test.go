package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTrainHasItsSecrets: a rank has the secrets that its step asks for, from where the environment says, on every generation, and no other.
func TestTrainHasItsSecrets(t *testing.T) {
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	s.env = append(s.env, "DEEP_TOKEN=deep quartz 9471", "DEEP_OTHER=vow of sphinx")
	if err := os.Mkdir(s.project, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.project, "environment.yaml"), `sluice: environment/v1
name: test
pools: {here: {local: {nodes: 1}}}
secrets: {token: {env: DEEP_TOKEN}, other: {env: DEEP_OTHER}}
`)
	write(t, filepath.Join(s.project, "pipeline.yaml"), `sluice: pipeline/v1
name: fit
params: {tried: {type: string}}
steps:
  fit:
    train:
      command: [bash, -euc, 'test "$TOKEN" = "deep quartz 9471"; test -z "$${DEEP_TOKEN+x}$${DEEP_OTHER+x}$${OTHER+x}"; test -e "$TRIED" || { touch "$TRIED"; exit 7; }']
      pool: here
    env: {TRIED: "${params.tried}"}
    secrets: {TOKEN: token}
    retry: {attempts: 2, errors: [user], backoff: 100ms}
`)
	s.run("tried=" + filepath.Join(s.dir, "tried")).expect(0).says("2 generations")
}
