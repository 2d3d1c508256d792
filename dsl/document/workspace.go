package document

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Workspace is the folder of a pipeline.
type Workspace interface {
	// Exists reports whether path, relative to the pipeline's folder, is a file or a folder.
	Exists(path string) bool
	// LeftOut returns why a path that is there goes along with no run, and what to do about it; nothing for one that goes along.
	LeftOut(path string) (why, help string)
	// ReadFile returns what is in a file, relative to the pipeline's folder, and no more than MaxSource+1 bytes of it. It follows no path
	// out of the folder.
	ReadFile(path string) ([]byte, error)
}

// IsInside reports whether a path stays in the folder it is relative to.
func IsInside(p string) bool {
	clean := path.Clean(p)
	return p != "" && !path.IsAbs(p) && clean != ".." && !strings.HasPrefix(clean, "../")
}

// NamesFile reports whether the i-th word of a command names a file of the workspace. Code for a shell and addresses do not, whatever
// they end with.
func NamesFile(i int, arg string) bool {
	script := strings.HasSuffix(arg, ".py") || strings.HasSuffix(arg, ".sh")
	if strings.ContainsAny(arg, " \t\n;&|<>$*?'\"`") || strings.Contains(arg, "://") {
		return false
	}
	return i == 0 && strings.HasPrefix(arg, "./") || i > 0 && script && !strings.HasPrefix(arg, "-") && !path.IsAbs(arg)
}

// NamedFiles are where a command and its list of files name files of the workspace.
func NamedFiles(command, files *yaml.Node) (named []*yaml.Node) {
	for _, list := range []*yaml.Node{command, files} {
		if list == nil || list.Kind != yaml.SequenceNode {
			continue // `none` is no file
		}
		for i, n := range Items(list) {
			if n.Kind == yaml.ScalarNode && n.Tag != "!!null" && (list == files || NamesFile(i, n.Value)) {
				named = append(named, n)
			}
		}
	}
	return named
}

// CheckFiles does as CheckFile for each of the files that are named, once for one that is named again.
func CheckFiles(r Reporter, ws Workspace, named []*yaml.Node) {
	met := map[string]bool{}
	for _, at := range named {
		if file := path.Clean(at.Value); !met[file] {
			met[file] = true
			CheckFile(r, ws, at, at.Value)
		}
	}
}

// CheckFile reports a file that a workspace lacks, or that goes along with no run; at is where it is named.
func CheckFile(r Reporter, ws Workspace, at *yaml.Node, file string) {
	switch {
	case at == nil || file == "":
	case !IsInside(file):
		r.Errorf(at, "path", "copy it into the pipeline's folder", "%q is outside the pipeline's folder", file)
	case !ws.Exists(path.Clean(file)):
		r.Errorf(at, "missing-file", "paths are relative to the pipeline's folder", "the file %q does not exist", file)
	default:
		if why, help := ws.LeftOut(path.Clean(file)); why != "" {
			r.Errorf(at, "left-out", help, "%q is not part of the run's workspace: %s", file, why)
		}
	}
}

// CheckListed warns of a file that a command names and that is not among the files on which it is said to depend.
func CheckListed(r Reporter, ws Workspace, command, files *yaml.Node) {
	if files == nil || files.Kind == yaml.SequenceNode && len(files.Content) == 0 {
		return
	}
	listed := Items(files) // `none` is one that is not there
	for i, word := range Items(command) {
		file := path.Clean(word.Value)
		if word.Kind != yaml.ScalarNode || !NamesFile(i, word.Value) || !IsInside(file) || ws != nil && !ws.Exists(file) {
			continue
		}
		if !slices.ContainsFunc(listed, func(n *yaml.Node) bool {
			folder := path.Clean(n.Value)
			return folder == "." || folder == file || strings.HasPrefix(file, folder+"/")
		}) {
			r.Warnf(files, "files", "add "+file, "`files` is all that the step depends on, and its command names %q", word.Value)
			return
		}
	}
}
