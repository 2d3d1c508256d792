// Package trtexec drives TensorRT's command line tool: which flags each of its major versions takes, and what the files mean that it
// writes. TensorRT 10 takes precision as a flag; 11 takes it from the graph alone and refuses the flags.
package trtexec

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
)

// The major versions that are known.
const (
	Major10 = 10
	Major11 = 11
)

// debianPath is where the packages of TensorRT put trtexec, which is in no PATH.
const debianPath = "/usr/src/tensorrt/bin/trtexec"

// errorLines is how much of a program's output goes into an error.
const errorLines = 20

// maxOutput bounds what is kept of a program's output where that is read, and maxLine what is kept of a line.
const (
	maxOutput = 1 << 20
	maxLine   = 1 << 10
)

// UnavailableError says that this machine cannot build engines, and why. Trying again does not help.
type UnavailableError struct{ Message string }

// Error implements error.
func (e *UnavailableError) Error() string { return e.Message }

// Platform is what an engine is bound to: on any other it is to be built again.
type Platform struct {
	GPU               string `json:"gpu"`
	ComputeCapability string `json:"compute_capability"`
	Driver            string `json:"driver"`
	TensorRT          string `json:"tensorrt"` // version of TensorRT, with dots
}

// Tool is trtexec on this machine, with the GPU that it runs on.
type Tool struct {
	Platform Platform
	Major    int

	path string
	uuid string // of the GPU, or of the instance of it
}

// Find looks for trtexec, in PATH and where TensorRT's packages put it, and for the first GPU, or the first of CUDA_VISIBLE_DEVICES.
// Its error is an UnavailableError where there is none.
func Find(ctx context.Context) (*Tool, error) { return new(Finder).find(ctx) }

func findPath() (string, error) {
	if path, err := exec.LookPath("trtexec"); err == nil {
		return path, nil
	}
	if _, err := os.Stat(debianPath); err == nil {
		return debianPath, nil
	}
	return "", &UnavailableError{"trtexec is neither in PATH nor at " + debianPath + ": install TensorRT 10 or 11 on the machine, " +
		"or in the image, that runs the step; TensorRT's Python packages do not include it"}
}

// Finder finds the platform of this machine again and again. It starts trtexec, which takes a second, only when that is another file.
type Finder struct {
	mu      sync.Mutex
	path    string
	changed time.Time
	version string
	major   int
}

// Platform returns what an engine would be bound to that was built here now. Its errors are Find's; where only trtexec is missing, it has the
// GPU all the same.
func (f *Finder) Platform(ctx context.Context) (Platform, error) {
	t, err := f.find(ctx)
	return t.Platform, err
}

func (f *Finder) find(ctx context.Context) (*Tool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, err := findPath()
	t := &Tool{path: path}
	if noGPU := t.findGPU(ctx); err == nil {
		err = noGPU
	}
	if err != nil {
		return t, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return t, err
	}
	if path != f.path || !info.ModTime().Equal(f.changed) {
		said, err := t.ask(ctx, path, "--help")
		if err != nil {
			return t, err
		}
		if f.version, f.major, err = version(said); err != nil {
			return t, err
		}
		f.path, f.changed = path, info.ModTime()
	}
	t.Platform.TensorRT, t.Major = f.version, f.major
	return t, nil
}

// banner begins everything that trtexec prints. Its version is one number, 100300 for 10.3.0, or has dots.
var banner = regexp.MustCompile(`RUNNING TensorRT\.trtexec \[TensorRT v([0-9.]+)\]`)

// version reads the version from trtexec's output.
func version(said string) (dotted string, major int, err error) {
	found := banner.FindStringSubmatch(said)
	if found == nil {
		return "", 0, &UnavailableError{"trtexec --help does not print the version of TensorRT"}
	}
	dotted = found[1]
	if n, err := strconv.Atoi(dotted); err == nil {
		dotted = fmt.Sprintf("%d.%d.%d", n/10_000, n/100%100, n%100)
		if n < 10_000 { // as TensorRT before 10 wrote it
			dotted = fmt.Sprintf("%d.%d.%d", n/1000, n/100%10, n%100)
		}
	}
	first, _, _ := strings.Cut(dotted, ".")
	major, err = strconv.Atoi(first)
	if err != nil || !slices.Contains([]int{Major10, Major11}, major) {
		return "", 0, &UnavailableError{"trtexec is from TensorRT " + dotted + "; 10 and 11 are supported"}
	}
	return dotted, major, nil
}

// ExitError says that trtexec did not end well.
type ExitError struct {
	Exit proc.Exit
	// Cause is the first error of its output; empty where it names none.
	Cause string
	// Said are the last lines of its output.
	Said string
}

// Error implements error.
func (e *ExitError) Error() string {
	message := fmt.Sprintf("trtexec exited with %s", e.Exit)
	if e.Cause != "" {
		message += ": " + e.Cause
	}
	if e.Said != "" {
		message += "\n" + e.Said
	}
	return message
}

// Run runs trtexec in a folder. The error is an ExitError where it did not end well.
func (t *Tool) Run(ctx context.Context, dir string, args []string) error {
	said := &output{tail: proc.NewTail(errorLines)}
	exit, err := proc.Run(ctx, proc.Command{
		Path: t.path, Args: args, Dir: dir, Stdout: said, Stderr: said,
		Env: append(os.Environ(), visibleDevices+"="+t.uuid),
	})
	if err != nil {
		return err
	}
	if !exit.OK() {
		return &ExitError{Exit: exit, Cause: said.cause, Said: said.tail.String()}
	}
	return nil
}

// output is what trtexec prints, on both streams: its last lines, and the first of those that it marks as an error, after which many may follow.
type output struct {
	tail  *proc.Tail
	line  []byte // not ended yet
	cause string
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	for rest := p; o.cause == "" && len(rest) > 0; {
		line, next, ended := bytes.Cut(rest, []byte("\n"))
		o.line, rest = append(o.line, line[:min(len(line), maxLine-len(o.line))]...), next
		if !ended {
			break
		}
		if _, cause, marked := bytes.Cut(o.line, []byte("[E] ")); marked {
			o.cause = string(bytes.TrimSpace(cause))
		}
		o.line = o.line[:0]
	}
	return o.tail.Write(p)
}

// ask runs a program that says something about this machine.
func (t *Tool) ask(ctx context.Context, path string, args ...string) (string, error) {
	said, tail := proc.NewHead(maxOutput), proc.NewTail(errorLines)
	exit, err := proc.Run(ctx, proc.Command{Path: path, Args: args, Stdout: said, Stderr: tail})
	if err != nil {
		return "", err
	}
	if !exit.OK() {
		return "", fmt.Errorf("%s ended with %s: %s", path, exit, strings.TrimSpace(string(said.Bytes())+tail.String()))
	}
	return string(said.Bytes()), nil
}
