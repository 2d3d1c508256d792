package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/proc"
)

// limit bounds every wait.
const limit = 30 * time.Second

func TestExitIsForwarded(t *testing.T) {
	tests := []struct {
		script string
		want   proc.Exit
	}{
		{"exit 0", proc.Exit{}},
		{"exit 1", proc.Exit{Code: 1}},
		{"exit 143", proc.Exit{Code: 143}},
		{"exit 255", proc.Exit{Code: 255}},
		{"kill -TERM $$", proc.Exit{Code: -1, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", proc.Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"kill -ABRT $$", proc.Exit{Code: -1, Signal: syscall.SIGABRT}},
	}
	for _, test := range tests {
		t.Run(test.script, func(t *testing.T) {
			got, err := wait(t, start(t, proc.Command{Path: "bash", Args: []string{"-c", test.script}}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("exit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandGetsWhatItWasGiven(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	p := start(t, proc.Command{
		Path:   "bash",
		Args:   []string{"-c", `pwd; cat; printf '<%s>' "$@"; env >&2`, "name", "", "two words", "new\nline"},
		Dir:    dir,
		Env:    []string{"A=1", "B="},
		Stdin:  strings.NewReader("from stdin\n"),
		Stdout: &out,
		Stderr: &errs,
	})
	mustWait(t, p)
	if diff := cmp.Diff(dir+"\nfrom stdin\n<><two words><new\nline>", out.String()); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	// bash adds these three of its own accord.
	var env []string
	for line := range strings.Lines(errs.String()) {
		if !strings.HasPrefix(line, "PWD=") && !strings.HasPrefix(line, "SHLVL=") && !strings.HasPrefix(line, "_=") {
			env = append(env, line)
		}
	}
	slices.Sort(env)
	if diff := cmp.Diff([]string{"A=1\n", "B=\n"}, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestCommandInheritsNoDescriptorOfTheKeepers(t *testing.T) {
	list := []string{"-c", "ls /proc/self/fd"}
	bare, err := exec.Command("bash", list...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	mustWait(t, start(t, proc.Command{Path: "bash", Args: list, Stdout: &kept}))
	if diff := cmp.Diff(string(bare), kept.String()); diff != "" {
		t.Errorf("descriptors (-bare +kept):\n%s", diff)
	}
}

// A command is started with every signal's default action, whatever its parent was started with: nohup ignores SIGHUP, a shell without
// job control SIGINT and SIGQUIT in what it starts with "&".
func TestSignalsKeepTheirDefaultAction(t *testing.T) {
	status := []string{"grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"}
	// The C library keeps signals 32 and 33 for itself; Go leaves them alone, and make ignores them in what it starts.
	none := regexp.MustCompile(`^SigBlk:\t0{16}\nSigIgn:\t0{7}[01][08]0{7}\n$`)
	for _, parent := range []string{"--default-signal=HUP,INT,QUIT", "--ignore-signal=HUP", "--ignore-signal=HUP,INT,QUIT"} {
		t.Run(parent, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "env", append([]string{parent, os.Args[0], asParent}, status...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			if !none.Match(out) {
				t.Errorf("signal masks %s", out)
			}
		})
	}
}

func TestOutputLargerThanAPipe(t *testing.T) {
	var out bytes.Buffer
	const size = 8 << 20
	mustWait(t, start(t, proc.Command{Path: "head", Args: []string{"-c", strconv.Itoa(size), "/dev/zero"}, Stdout: &out}))
	if out.Len() != size {
		t.Errorf("got %d bytes, want %d", out.Len(), size)
	}
}

func TestLargeEnvironment(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	var out bytes.Buffer
	mustWait(t, start(t, proc.Command{
		Path: "bash", Args: []string{"-c", `echo ${#A} ${#B} ${#1}`, "name", big}, Env: []string{"A=" + big, "B=" + big}, Stdout: &out,
	}))
	if got := out.String(); got != "100000 100000 100000\n" {
		t.Errorf("got %q", got)
	}
}

func TestStartFailures(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	write(t, plain, "not a program", 0o644)
	orphan := filepath.Join(dir, "orphan")
	write(t, orphan, "#!/no/such/interpreter\n", 0o755)
	tests := []struct {
		name    string
		command proc.Command
		is      error
		text    string
	}{
		{"not in PATH", proc.Command{Path: "no-such-program"}, exec.ErrNotFound, "start no-such-program: executable file not found in $PATH"},
		{"no such file", proc.Command{Path: "/no/such/file"}, fs.ErrNotExist, "start /no/such/file: no such file or directory"},
		{"not executable", proc.Command{Path: plain}, fs.ErrPermission, "start " + plain + ": permission denied"},
		{
			"no interpreter",
			proc.Command{Path: orphan},
			fs.ErrNotExist,
			"start " + orphan + ": the interpreter named in its first line: no such file or directory",
		},
		{
			"no folder",
			proc.Command{Path: "true", Dir: "/no/such/dir"},
			fs.ErrNotExist,
			"start true: working folder: stat /no/such/dir: no such file or directory",
		},
		{"folder is a file", proc.Command{Path: "true", Dir: plain}, nil, "start true: working folder: " + plain + " is not a folder"},
		{
			"NUL",
			proc.Command{Path: "true", Args: []string{"a\x00b"}},
			nil,
			"start true: an argument or environment variable contains a NUL byte",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := proc.Start(t.Context(), test.command)
			if err == nil {
				t.Fatal("it started")
			}
			if diff := cmp.Diff(test.text, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
		})
	}
	t.Run("context already ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := proc.Start(ctx, proc.Command{Path: "true"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSignalReachesTheCommandOnly(t *testing.T) {
	var out lines
	// The child in the same process group would end the script's wait if it got the signal too.
	p := start(t, proc.Command{
		Path: "bash", Args: []string{"-c", `sleep 1000 & trap 'kill -0 $! && exit 7' USR1; echo ready; wait`}, Stdout: &out,
	})
	out.await(t, 1)
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if exit := mustWait(t, p); exit.Code != 7 {
		t.Errorf("got %v, want exit code 7", exit)
	}
	if err := p.Signal(syscall.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: got %v, want ErrProcessDone", err)
	}
}

func TestTerminate(t *testing.T) {
	const (
		politely = `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`
		stubborn = `trap '' TERM; echo ready; while :; do sleep 0.01; done`
	)
	tests := []struct {
		name, script string
		grace        time.Duration
		want         proc.Exit
	}{
		{"ends by itself", politely, limit, proc.Exit{Code: 3}},
		{"ignores SIGTERM", stubborn, 50 * time.Millisecond, proc.Exit{Code: -1, Signal: syscall.SIGKILL}},
	}
	for _, test := range tests {
		for _, how := range []string{"method", "context"} {
			t.Run(test.name+", by "+how, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var out lines
				p, err := proc.Start(ctx, proc.Command{Path: "bash", Args: []string{"-c", test.script}, Grace: test.grace, Stdout: &out})
				if err != nil {
					t.Fatal(err)
				}
				out.await(t, 1)
				if how == "method" {
					p.Terminate(t.Context())
				} else {
					cancel()
				}
				if got := mustWait(t, p); got != test.want {
					t.Errorf("got %v, want %v", got, test.want)
				}
			})
		}
	}
}

// detached is a script that leaves a background job, a process in a session of its own and a double-forked daemon behind, each
// deaf to what can be ignored, and prints their process IDs, then its own.
const detached = `
trap '' TERM HUP INT
deaf() { trap '' TERM HUP INT; echo $BASHPID; exec sleep 1000 >/dev/null; }
deaf &
setsid bash -c 'trap "" TERM HUP INT; echo $BASHPID; exec sleep 1000 >/dev/null' &
setsid bash -c '(setsid bash -c "trap \"\" TERM HUP INT; echo \$BASHPID; exec sleep 1000 >/dev/null" &) &'
`

const detachedCount = 3

func TestNothingOutlivesTheCommand(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, p *proc.Process)
	}{
		{"it exits", func(t *testing.T, p *proc.Process) { signalTo(t, p.PID(), syscall.SIGUSR1) }},
		{"it is killed", func(t *testing.T, p *proc.Process) { signalTo(t, p.PID(), syscall.SIGKILL) }},
		{"Kill", func(_ *testing.T, p *proc.Process) { p.Kill() }},
		{"it is stopped, then Kill", func(t *testing.T, p *proc.Process) { signalTo(t, p.PID(), syscall.SIGSTOP); p.Kill() }},
		{"the keeper is stopped, then Kill", func(t *testing.T, p *proc.Process) {
			signalTo(t, parentOf(t, p.PID()), syscall.SIGSTOP)
			p.Kill()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out lines
			p := start(t, proc.Command{Path: "bash", Args: []string{"-c", detached + `trap 'exit 0' USR1; while :; do sleep 0.01; done`}, Stdout: &out})
			pids := append(out.await(t, detachedCount), p.PID())
			for _, pid := range pids {
				if !alive(pid) {
					t.Fatalf("process %d is not there to begin with", pid)
				}
			}
			test.end(t, p)
			exit, err := wait(t, p)
			t.Logf("ended: %v, %v", exit, err)
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d outlived the command", pid)
				}
			}
		})
	}
}

func TestLostKeeperIsAnError(t *testing.T) {
	var out lines
	p := start(t, proc.Command{Path: "bash", Args: []string{"-c", `echo ready; exec sleep 1000`}, Stdout: &out})
	out.await(t, 1)
	signalTo(t, parentOf(t, p.PID()), syscall.SIGKILL)
	exit, err := wait(t, p)
	if !errors.Is(err, proc.ErrLost) || exit.OK() {
		t.Errorf("got %v, %v, want ErrLost", exit, err)
	}
	awaitGone(t, p.PID())
}

// A keeper that has ended while it waited for a command is replaced, and one that waits keeps the next command.
func TestKeeperIsUsedAgain(t *testing.T) {
	keeperOf := func() int {
		var out lines
		p := start(t, proc.Command{Path: "bash", Args: []string{"-c", `echo $PPID; sleep 1000 & exit 3`}, Stdout: &out})
		if exit := mustWait(t, p); exit.Code != 3 {
			t.Fatalf("got %v, want exit code 3", exit)
		}
		if err := p.Signal(syscall.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: got %v, want ErrProcessDone", err)
		}
		p.Kill() // not the keeper's next command
		return out.await(t, 1)[0]
	}
	first := keeperOf()
	if again := keeperOf(); again != first {
		t.Errorf("the second command has the keeper %d, and the first had %d", again, first)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	write(t, plain, "not a program", 0o644)
	if _, err := proc.Start(t.Context(), proc.Command{Path: plain}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want ErrPermission", err)
	}
	if again := keeperOf(); again != first {
		t.Errorf("after a command that could not start the keeper is %d, not %d", again, first)
	}
	signalTo(t, first, syscall.SIGKILL)
	eventually(t, func() bool { return !alive(first) })
	if again := keeperOf(); again == first {
		t.Error("a dead keeper has kept a command")
	}
}

// TestNothingOutlivesTheParent kills a real parent, of which this test is the parent, as the kernel's out-of-memory killer would.
func TestNothingOutlivesTheParent(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			var out lines
			parent := exec.Command(os.Args[0], asParent, "bash", "-c", detached+`echo $$; sleep 1000`)
			// A pipe of our own: Wait of exec.Cmd's would wait for the grandchildren, which is what is tested here.
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			parent.Stdout = w
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			copied := make(chan struct{})
			go func() {
				defer close(copied)
				if _, err := io.Copy(&out, r); err != nil {
					t.Error(err)
				}
			}()
			pids := out.await(t, detachedCount+1)
			signalTo(t, parent.Process.Pid, sig)
			if err := parent.Wait(); err == nil {
				t.Error("the parent ended by itself")
			}
			for _, pid := range pids {
				awaitGone(t, pid)
			}
			<-copied
			r.Close()
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	const count = 50
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() {
			var out bytes.Buffer
			p, err := proc.Start(t.Context(), proc.Command{
				Path: "bash", Args: []string{"-c", fmt.Sprintf("sleep 1000 & echo %d; exit %d", i, i)}, Stdout: &out,
			})
			if err != nil {
				t.Error(err)
				return
			}
			exit, err := p.Wait()
			if err != nil || exit.Code != i || out.String() != fmt.Sprintln(i) {
				t.Errorf("command %d: got %v, %v, output %q", i, exit, err, out.String())
			}
		})
	}
	group.Wait()
}

// BenchmarkStart measures a command that does nothing, under keepers and bare. What a keeper costs depends on the size of the
// program it is part of; this is the smallest.
func BenchmarkStart(b *testing.B) {
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			p, err := proc.Start(b.Context(), proc.Command{Path: "/bin/true"})
			if err != nil {
				b.Fatal(err)
			}
			<-p.Done()
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The end of the command is when it ended, not when all it left behind was gone.
func TestEndedAt(t *testing.T) {
	var out bytes.Buffer
	p := start(t, proc.Command{Path: "bash", Args: []string{"-c", "sleep 100 & date +%s%N"}, Stdout: &out})
	if _, err := wait(t, p); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	said := time.Unix(0, nanoseconds).Add(-2 * time.Millisecond) // reports are in milliseconds
	if at := p.EndedAt(); at.Before(said) || at.After(after) {
		t.Errorf("ended at %v, which is not between %v, when it said something last, and %v, when all was over", at, said, after)
	}
}
