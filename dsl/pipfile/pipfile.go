// Package pipfile reads requirements files of pip.
package pipfile

import (
	"path"
	"strings"
)

// includes are the options by which pip reads another file.
var includes = []string{"--requirement", "--constraint", "-r", "-c"}

// Included returns the files that a requirements file includes, as they are named in the folder that the file's own name is relative to.
func Included(name string, text []byte) []string {
	var all []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		for _, option := range includes {
			rest, is := strings.CutPrefix(line, option)
			if words := strings.Fields(strings.TrimLeft(rest, " \t=")); is && len(words) > 0 {
				all = append(all, path.Join(path.Dir(name), words[0]))
				break
			}
		}
	}
	return all
}

// Folder returns the first line that would install a folder or a file of the machine, of which an environment that outlives the workspace
// can have none; or "".
func Folder(text []byte) string {
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.ReplaceAll(line, "=", " "))
		if len(words) > 0 && (words[0] == "-e" || words[0] == "--editable" || strings.HasPrefix(words[0], ".") || strings.HasPrefix(words[0], "/")) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
