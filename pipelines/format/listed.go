package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Listed is a list of files, in whose content the caller is interested: the job reads no other files of this machine, and fails if one of
// them is no longer what was listed.
type Listed struct {
	// File is the path of the list, a []File as JSON. Empty: there is no list.
	File string `json:"file,omitempty"`
	// Own is a folder whose files may be read although they are not in the list, because nothing else writes there.
	Own string `json:"own,omitempty"`
}

// List is what a Listed lists, by path.
type List struct {
	own   string
	files map[string]File // nil: there is no list
}

// Read reads the list.
func (from Listed) Read() (List, error) {
	if from.File == "" {
		return List{}, nil
	}
	text, err := os.ReadFile(from.File)
	if err != nil {
		return List{}, err
	}
	var files []File
	if err := json.Unmarshal(text, &files); err != nil {
		return List{}, fmt.Errorf("the list of files: %w", err)
	}
	l := List{own: from.Own, files: map[string]File{}}
	for _, f := range files {
		l.files[f.Path] = f
	}
	return l, nil
}

// Complete returns an error if one of the files is no longer what was listed, and so was perhaps not found.
func (l List) Complete() error { return Unchanged(slices.Collect(maps.Values(l.files))) }

// Settle keeps of the files that were found those that were listed, as they were listed, and those that need not be. A file that has come
// since then is left for the next job, as one that comes while this job runs.
func (l List) Settle(found []File) ([]File, error) {
	if l.files == nil {
		return found, nil
	}
	var kept []File
	for _, f := range found {
		before, known := l.files[f.Path]
		switch {
		case f.IsObject() || strings.HasPrefix(f.Path, l.own+"/"):
		case !known:
			continue
		default:
			f.Size, f.Stamp = before.Size, before.Stamp
			if err := f.Unchanged(); err != nil {
				return nil, err
			}
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// Unchanged returns an error if one of the files is no longer what was listed.
func Unchanged(files []File) error {
	for _, f := range files {
		if err := f.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}
