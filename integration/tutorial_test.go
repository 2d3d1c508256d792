package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/serving/onnx"
)

// tutorialPart is a block with what comes before the next one: a file to write, commands to type, or a program for the shell.
var tutorialPart = regexp.MustCompile("(?m)^```(\\w+) ?(\\S*)\n((?s:.*?))^```$|^    (.*)$")

// tutorialReuse is the line of a plan that the page speaks of.
var tutorialReuse = regexp.MustCompile(`(?m)^ +\d+ +rows +clean\n +cached `)

// TestTutorial follows docs/tutorial.md to the letter: it writes the files and types the commands, each in its turn.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	s := emptySandbox(t, t.TempDir())
	sluice, err := sluicePath()
	if err != nil {
		t.Fatal(err)
	}
	// The folder that the page makes has the project's Python and its state.
	s.project = filepath.Join(s.dir, "churn")
	s.state = filepath.Join(s.project, ".sluice")
	s.env = slices.DeleteFunc(s.env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "SLUICE_STATE" || name == onnx.EnvironmentVariable
	})
	s.env = append(s.env, "PATH="+filepath.Dir(sluice)+":"+os.Getenv("PATH"))
	port := fmt.Sprint(s.port)

	var up *command
	typed := 0
	for _, part := range tutorialPart.FindAllStringSubmatch(string(page), -1) {
		language, file, text, line := part[1], part[2], strings.ReplaceAll(part[3], "8085", port), part[4]
		switch {
		case line == "sluice up":
			up = s.start("up")
			up.awaits("production")
		case language == "bash":
			up.await("an answer of the model", func() bool { return strings.Contains(s.types(text), "probabilities") })
		case line != "":
			typed++
			if out := s.types(line); strings.HasPrefix(line, "sluice plan") && !tutorialReuse.MatchString(out) {
				t.Errorf("%s does not show that `rows` will be reused:\n%s", line, out)
			}
		case strings.HasPrefix(file, ">>"):
			s.appends(file[2:], text)
		default:
			write(t, filepath.Join(s.project, file), text)
		}
	}
	if up == nil || typed < 8 {
		t.Fatalf("the page has %d commands, and `sluice up` is %v", typed, up)
	}
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)
}

// types gives the shell a line, in the folder that the page is in by then, and returns what it prints.
func (s *sandbox) types(line string) string {
	s.t.Helper()
	shell := exec.CommandContext(s.t.Context(), "bash", "-euo", "pipefail", "-c", line)
	shell.Dir, shell.Env = s.project, s.env
	if _, err := os.Stat(s.project); err != nil {
		shell.Dir = s.dir
	}
	out, err := shell.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

func (s *sandbox) appends(file, text string) {
	s.t.Helper()
	path := filepath.Join(s.project, file)
	before, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, path, string(before)+text)
}
