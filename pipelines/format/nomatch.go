package format

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
)

// errNoMatch returns the error for a pattern that matches no file, with a suggestion of what may have been meant.
func errNoMatch(pattern string) error {
	if inBucket(pattern) {
		return fault.Errorf(fault.User, "no file matches %s", pattern)
	}
	help := ""
	folder, name := filepath.Split(pattern)
	if info, err := os.Stat(pattern); err == nil {
		if info.IsDir() {
			help = "it is a folder; to read the files in it, add /* to the path"
		} else if literal := literalPattern(pattern); literal != pattern {
			help = "* ? and [] are wildcards; to read the file with exactly this name, write " + literal
		}
	} else if entries, err := os.ReadDir(cmp.Or(folder, ".")); err == nil {
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		if near := suggest.To(name, names); near != "" {
			help = "did you mean " + folder + near + "?"
		} else if below, err := filepath.Glob(folder + "*/" + name); err == nil && len(below) > 0 {
			help = "its subfolders have such files; to read them, write " + folder + "**/" + name
		}
	} else if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(folder, `*?[`) {
		help = "there is no folder " + strings.TrimRight(folder, "/")
	}
	where := ""
	if at, err := os.Getwd(); err == nil && !filepath.IsAbs(pattern) {
		where = " in " + at
		help = cmp.Or(help, "the path is relative to the folder in which Sluice was started: use an absolute path, or read an input")
	}
	if help != "" {
		help = "\nhelp: " + help
	}
	return fault.Errorf(fault.User, "no file matches %s%s%s", pattern, where, help)
}

// literalPattern returns the pattern that matches only the given name.
func literalPattern(name string) string {
	return strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`, `\`, `\\`).Replace(name)
}
