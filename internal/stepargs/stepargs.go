// Package stepargs is how the agent of a node of a pool asks the program sluice for a step: sluice PROGRAM FILE NAME=FOLDER..., where the file
// has the step's resolved spec, for which an argument may be too short, and the folders its inputs. What the program made it leaves in a folder,
// with a report; while it is at work it says how far it is.
package stepargs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/internal/artifact"
)

// What PROGRAM is.
const (
	Compile = "__compile"
	Clean   = "__clean_step"
)

// Command is the command for a step, with tokens in the place of folders. It lacks the file.
func Command(program string, inputs map[string]artifact.Ref) []string {
	command := []string{"sluice", program}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		command = append(command, name+"="+inputpath.Token(name, inputs[name].Digest))
	}
	return command
}

// Write completes a command that lacks the file, which it puts into dir, and the path of the program.
func Write(command []string, program, dir string, resolved json.RawMessage) ([]string, error) {
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, resolved, 0o600); err != nil {
		return nil, err
	}
	return slices.Concat([]string{program, command[1], file}, command[2:]), nil
}

// Read reads the arguments after PROGRAM: a spec of type S, and the folders by the names of the inputs.
func Read[S any](args []string) (resolved S, dirs map[string]string, err error) {
	if len(args) == 0 {
		return resolved, nil, errors.New("there is no spec of a step")
	}
	raw, err := os.ReadFile(args[0])
	if err == nil {
		err = json.Unmarshal(raw, &resolved)
	}
	if err != nil {
		return resolved, nil, fmt.Errorf("read the spec of the step: %w", err)
	}
	dirs = map[string]string{}
	for _, arg := range args[1:] {
		name, dir, _ := strings.Cut(arg, "=")
		dirs[name] = dir
	}
	return resolved, dirs, nil
}
