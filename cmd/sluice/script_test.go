package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluiceml/sluice/compile/trtexec/trtexectest"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/training/protocol"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice":  func() { os.Exit(run(os.Args[1:])) },
		"trtexec": trtexectest.Main,
		"sluice-agent": func() {
			if err := agentMain(); err != nil {
				fmt.Fprintln(os.Stderr, "sluice-agent:", err)
				os.Exit(1)
			}
		},
	})
}

// agentMain is what cmd/sluice-agent does, in the test program.
func agentMain() error {
	if len(os.Args) > 3 && os.Args[1] == agent.RankCommand {
		os.Exit(agent.Rank(os.Args[2], os.Args[3:]))
	}
	config, err := protocol.AgentConfigFromEnv()
	if err != nil {
		return err
	}
	ctx, stop := agent.Lifetime(config)
	defer stop()
	s, err := store.Open(ctx, config.Store)
	if err != nil {
		return err
	}
	payloads, err := codec.Open(config.CodecKeys, s)
	if err != nil {
		return err
	}
	return agent.Run(ctx, config, s, payloads.Configure, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// The scripts are what a person would type, with what must be seen. `code N sluice ...` wants an exit code, `await FILE` waits for a
// file, `eventually REGEX sluice ...` for an output, `term` sends SIGTERM to what runs in the background, `down` ends the process that holds .sluice.
// $MODELS has models to serve, $ONNXRUNTIME is what serves them, $PYTHON_ENV is the project's Python, and $EXAMPLES are the examples.
// $RTX is the folder of TensorRT for RTX, on the condition rtx. trtexec is a stand-in of the version and on the GPU that $SLUICE_TEST_TRTEXEC names.
func TestScripts(t *testing.T) {
	models, err := filepath.Abs("../../serving/onnx/onnxtest")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	python, err := filepath.Abs(cmp.Or(os.Getenv(onnx.EnvironmentVariable), "../../.venv"))
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := onnx.FindLibrary()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(runtime) {
		runtime = "" // the linker finds it, wherever one works
	}
	rtx, noRTX := rig.Program("rtx", ".stamp")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			if name != "rtx" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			if noRTX != nil && os.Getenv("SLUICE_TEST_ALL") != "" {
				return false, noRTX
			}
			return noRTX == nil, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SLUICE_PYTHON_ENV", "")
			env.Setenv("TZ", "UTC")
			env.Setenv("MODELS", models)
			env.Setenv("ONNXRUNTIME", runtime)
			env.Setenv("PYTHON_ENV", python)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("RTX", filepath.Dir(rtx))
			env.Defer(func() { // a script that failed may have left one
				if info, held, err := holder.Find(filepath.Join(env.WorkDir, state.Dir)); err == nil && held {
					syscall.Kill(info.PID, syscall.SIGKILL)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "await": await, "down": down, "eventually": eventually, "term": terminate},
	})
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// patience bounds every wait; a machine may be busy.
const patience = time.Minute

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	until(ts, args[0]+" is there", func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEX command...")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	until(ts, args[0]+" is seen", func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && wanted.MatchString(ts.ReadFile("stdout"))
	})
}

func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: term")
	}
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}

func down(ts *testscript.TestScript, neg bool, args []string) {
	state := ts.MkAbs(state.Dir)
	info, held, err := holder.Find(state)
	ts.Check(err)
	if neg || len(args) != 0 || !held {
		ts.Fatalf("usage: down, where a process holds %s", state)
	}
	ts.Check(syscall.Kill(info.PID, syscall.SIGTERM))
	until(ts, "the holder has ended", func() bool { // another one may have taken its place
		now, held, err := holder.Find(state)
		return err == nil && (!held || now.PID != info.PID)
	})
}

func until(ts *testscript.TestScript, what string, done func() bool) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.After(patience); !done(); {
		select {
		case <-again.C:
		case <-end:
			ts.Fatalf("not within %s: %s", patience, what)
		}
	}
}
