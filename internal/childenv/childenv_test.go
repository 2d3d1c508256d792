package childenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInheritable(t *testing.T) {
	for name, want := range map[string]bool{
		"PATH": true, "LC_ALL": true, "PIP_INDEX_URL": true, "CUDA_VISIBLE_DEVICES": true, "HF_HOME": true,
		"TF_VAR_db_pass": false, "TF_CLI_CONFIG_FILE": false, "HF_TOKEN": false, "PIP_PASSWORD": false, "NPM_CONFIG__AUTH": false, "UV_PUBLISH_TOKEN": false,
		"PYTHON_KEYRING_BACKEND": false, "XDG_SECRETS": false, "NCCL_": false, "path": false, "AWS_REGION": false, "": false,
	} {
		if got := Inheritable(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for name, want := range map[string]bool{"AWS_REGION": true, "TEMPORAL_ADDRESS": true, "AZURE_DEVOPS_EXT_PAT": false, "AWS_BEARER_TOKEN_BEDROCK": false} {
		if got := OfStore(name); got != want {
			t.Errorf("of the store: %q: %v", name, got)
		}
	}
}

func TestWithheld(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"train.py": `for _ in range(3): corpus = os.environ["CORPUS"]`, "other.py": "UNREAD", "lib/env.sh": "echo $DEEP"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{
		"PATH=/usr/bin", "MLFLOW_TRACKING_URI=http://mlflow", "WANDB_API_KEY=x", "AWS_REGION=eu-west-1", "CORPUS=/data", "DEEP=1", "LR=0.1", "LRS=1", "UNREAD=1",
		"EDITOR=vi", "GIVEN=1", "_=/usr/bin/sluice",
	}
	got := Withheld(environ, `bash -c "python3 train.py --lr=$LR --given $GIVEN; . ./lib/env.sh"`+"\n../outside.py /etc/passwd", dir, func(name string) bool {
		return Inheritable(name) || name == "GIVEN"
	})
	if diff := cmp.Diff([]string{"AWS_REGION", "CORPUS", "DEEP", "LR", "MLFLOW_TRACKING_URI", "WANDB_API_KEY"}, got); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if got := Withheld([]string{"EDITOR=vi"}, "python3 train.py", dir, Inheritable); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
