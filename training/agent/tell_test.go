package agent

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/protocol"
)

// loading is the usual PyTorch script: a DataLoader with workers, a flag that SIGTERM sets, and a checkpoint when it is set.
const loading = `
import json, os, pathlib, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 1 << 30
    def __getitem__(self, i):
        time.sleep(0.05)
        return torch.ones(4)
torch.set_num_threads(1)
folder = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"])
with open(os.environ["SLUICE_METRICS"], "a") as metrics:
    for step, row in enumerate(DataLoader(Rows(), num_workers=2), 1):
        print(json.dumps({"step": step, "loss": 1}), file=metrics, flush=True)
        if step == 3: pathlib.Path("loaded").touch()
        if stop and stop.append(1) or len(stop) > 5:  # some batches later
            new = folder / "new"
            new.mkdir()
            torch.save({"step": step}, new / "model.pt")
            new.rename(folder / f"step-{step}")
            sys.exit(143)
`

// A rank is told to stop, and not the workers of its DataLoader: without them it fails before it has saved.
func TestWorkersOfTheLoaderAreNotToldToStop(t *testing.T) {
	needsTorch(t)
	torchrun := spec.Train{Launcher: spec.LauncherTorchrun}
	for name, c := range map[string]struct {
		spec    spec.Train
		command string
		code    int
	}{
		"plain":                    {spec.Train{}, "exec python3 train.py", exitStopped},
		"below a shell":            {spec.Train{}, "python3 train.py; exit $?", exitStopped},
		"below a shell with traps": {spec.Train{}, "trap : TERM; trap 'rm -f tmp' EXIT; python3 train.py & wait $!; exit $?", exitStopped},
		"in a session of its own":  {spec.Train{}, "setsid -w python3 train.py; exit $?", exitStopped},
		"timeout":                  {spec.Train{}, "exec timeout 1h python3 train.py", exitStopped},
		"launcher torchrun":        {torchrun, "exec python3 train.py", exitStopped},
		"torchrun in the command":  {spec.Train{}, "exec python3 -m torch.distributed.run --redirects=1 --tee=1 train.py", 1},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "train.py"), []byte(loading), 0o600); err != nil {
				t.Fatal(err)
			}
			g := startGang(t, 1, c.spec, "cd "+work+"; "+c.command)
			root := g.ranks[0].p.dirs.root
			loaded, err := filepath.Rel(root, filepath.Join(work, "loaded"))
			if err != nil {
				t.Fatal(err)
			}
			g.await(t, 0, loaded)
			if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 40 * time.Second}); err != nil {
				t.Fatal(err)
			}
			if end := g.end(t, 0); end.Code != c.code || end.Signal != 0 || end.Step == 0 || end.CommittedStep != end.Step {
				t.Errorf("ended %+v, want exit code %d and a checkpoint of its last step; it said:\n%s", end, c.code, g.ranks[0].said.tail)
			}
		})
	}
}

// A program that does not catch SIGTERM ends by it, with all that it has started.
func TestDeafRanksAreStopped(t *testing.T) {
	g := startGang(t, 1, spec.Train{}, `sleep 1000 & touch "$SLUICE_CHECKPOINT_DIR/up"; wait`)
	g.await(t, 0, "checkpoints/up")
	if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if end := g.end(t, 0); end.Signal != 15 {
		t.Errorf("ended %+v, want SIGTERM", end)
	}
}

// A script that does not catch SIGTERM ends by it, although the workers of its DataLoader catch it.
func TestRanksWithoutAHandlerAreStopped(t *testing.T) {
	needsTorch(t)
	work := t.TempDir()
	script := strings.Replace(loading, "signal.signal(signal.SIGTERM, lambda *_: stop.append(1))", "", 1)
	loop := script[strings.Index(script, "with open"):]
	guarded := strings.Replace(script, loop, "if __name__ == '__main__':\n    "+strings.ReplaceAll(strings.TrimSpace(loop), "\n", "\n    ")+"\n", 1)
	for name, script := range map[string]string{
		"fork":  script,
		"spawn": strings.Replace(guarded, "num_workers=2", "num_workers=2, multiprocessing_context='spawn'", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(filepath.Join(work, "loaded"))
			if err := os.WriteFile(filepath.Join(work, "train.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			g := startGang(t, 1, spec.Train{}, "cd "+work+"; exec python3 train.py")
			loaded, err := filepath.Rel(g.ranks[0].p.dirs.root, filepath.Join(work, "loaded"))
			if err != nil {
				t.Fatal(err)
			}
			g.await(t, 0, loaded)
			if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 40 * time.Second}); err != nil {
				t.Fatal(err)
			}
			if end := g.end(t, 0); end.Signal != 15 {
				t.Errorf("ended %+v, want SIGTERM; it said:\n%s", end, g.ranks[0].said.tail)
			}
		})
	}
}

// TestShellThatStartsPrograms: a shell that catches SIGTERM is told, and not the child that it has just forked, which still catches what it does.
func TestShellThatStartsPrograms(t *testing.T) {
	shell := exec.CommandContext(t.Context(), "sh", "-c", `trap 'exit 9' TERM; echo caught; while true; do /bin/true; done`)
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Process.Kill(); _ = shell.Wait() }) // it has ended, if the test has passed
	if _, err := io.ReadFull(out, make([]byte, len("caught\n"))); err != nil {
		t.Fatal(err)
	}
	for range 10 { // in about one look of a hundred there is such a child
		if found := settledHandlers(shell.Process.Pid); !slices.Equal(found, []int{shell.Process.Pid}) {
			t.Fatalf("told %v, want %d", found, shell.Process.Pid)
		}
	}
	if !tellRank(shell.Process.Pid) {
		t.Error("nobody was told")
	}
	if exit := (*exec.ExitError)(nil); !errors.As(shell.Wait(), &exit) || exit.ExitCode() != 9 {
		t.Errorf("the shell ended with %v", exit)
	}
}
