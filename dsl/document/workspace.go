package document

import (
	"path"
	"strings"
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
