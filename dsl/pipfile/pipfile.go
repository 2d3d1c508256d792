// Package pipfile reads requirements files of pip.
package pipfile

import (
	"path"
	"slices"
	"strings"
)

// includes are the options by which pip reads another file.
var includes = []string{"--requirement", "--constraint", "-r", "-c"}

// Included returns the files that a requirements file includes, as they are named in the folder that the file's own name is relative to.
func Included(name string, text []byte) []string {
	var all []string
	for _, line := range lines(text) {
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

// Local returns the first line that would install from a folder or a file of the machine, of which an environment that outlives the
// workspace can have none; or "".
func Local(text []byte) string {
	for _, line := range lines(text) {
		words := strings.Fields(line)
		options := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
		if options < 0 {
			options = len(words)
		}
		if options > 0 && localRequirement(strings.Join(words[:options], " ")) || options == 0 && localOption(words) {
			return line
		}
	}
	return ""
}

// lines are the lines as pip reads them: those that a backslash continues are one, and comments are gone.
func lines(text []byte) []string {
	var all []string
	begun := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if rest, more := strings.CutSuffix(line, "\\"); more && !strings.HasPrefix(strings.TrimSpace(line), "#") { // a comment ends there
			begun += rest
			continue
		}
		if strings.HasPrefix(line, "#") {
			line = " " + line
		}
		all, begun = append(all, uncommented(begun+line)), ""
	}
	return append(all, uncommented(begun))
}

// uncommented is a line up to the word that begins with #: one in a word is part of a URL.
func uncommented(line string) string {
	for i, c := range line {
		if c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

// archives are the ends of the names of files that pip installs.
var archives = []string{".whl", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar.lz", ".tlz", ".tar.lzma"}

// localRequirement reports whether pip takes a requirement, without its options, from this machine: a path has a slash, or the end of an
// archive's name, and no name of a package has.
func localRequirement(req string) bool {
	marker := ";"
	if strings.Contains(req, ":/") { // a URL may have one
		marker = " ;"
		req = strings.ReplaceAll(req, "; ", " ; ")
	}
	req, _, _ = strings.Cut(req, marker)
	if strings.HasPrefix(req, ".") || strings.HasPrefix(req, "/") {
		return true
	}
	if name, url, direct := strings.Cut(req, "@"); direct && !strings.Contains(name, ":") {
		req = strings.TrimSpace(url)
	}
	path, _, _ := strings.Cut(req, "[") // extras
	path = strings.ToLower(strings.TrimSpace(path))
	return ofFile(req) || local(req) && (strings.Contains(path, "/") || slices.ContainsFunc(archives, func(end string) bool { return strings.HasSuffix(path, end) }))
}

// localOption reports whether options have pip take packages from this machine.
func localOption(words []string) bool {
	for i, word := range words {
		name, value, has := word, "", false
		if strings.HasPrefix(word, "--") {
			name, value, has = strings.Cut(word, "=")
		} else if strings.HasPrefix(word, "-") && len(word) > 2 {
			name, value, has = word[:2], strings.TrimPrefix(word[2:], "="), true
		}
		if !has && i+1 < len(words) {
			value = words[i+1]
		}
		value = strings.Trim(value, `"'`)
		switch {
		case name == "-e", abbreviates(name, "--editable"):
			return true
		case name == "-f", name == "-i", abbreviates(name, "--find-links"), abbreviates(name, "--index-url"), abbreviates(name, "--extra-index-url"):
			if value != "" && local(value) {
				return true
			}
		}
	}
	return false
}

// abbreviates reports whether pip takes a name for that of an option: it takes the beginning of one, too.
func abbreviates(name, option string) bool {
	return len(name) > len("--") && strings.HasPrefix(option, name)
}

// local reports whether a place is on this machine. One that a variable begins is somebody else's, but for the working folder.
func local(place string) bool {
	if ofFile(place) || strings.HasPrefix(place, "${PWD}") {
		return true
	}
	return !strings.Contains(place, "://") && !strings.HasPrefix(place, "${")
}

// ofFile reports whether a URL names a file, or a repository of a version control system, on this machine.
func ofFile(url string) bool {
	scheme, _, is := strings.Cut(strings.ToLower(url), ":")
	return is && (scheme == "file" || strings.HasSuffix(scheme, "+file"))
}
