package spec

import (
	"path"
	"strings"
)

// includeOptions are those of a requirements file by which pip reads another file.
var includeOptions = []string{"--requirement", "--constraint", "-r", "-c"}

// Included returns the files that a requirements file includes, as it is seen from the same folder as that.
func Included(name string, text []byte) []string {
	var all []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		for _, option := range includeOptions {
			rest, is := strings.CutPrefix(line, option)
			if words := strings.Fields(strings.TrimLeft(rest, " \t=")); is && len(words) > 0 {
				all = append(all, path.Join(path.Dir(name), words[0]))
				break
			}
		}
	}
	return all
}
