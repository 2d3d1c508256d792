package triton

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/store"
)

// repository is a Triton's model repository as this process has it.
type repository interface {
	// publish writes the models of a release, as far as they are not there; the one that clients know is the last.
	publish(ctx context.Context, s *store.Store, m *model) error
	// list returns what is there of a store's target, sorted: an ensemble comes before its models.
	list(ctx context.Context, owner, target string) ([]found, error)
	// remove deletes what list has found. Its name is no model's when it has been begun.
	remove(ctx context.Context, name string) error
	// writable says why nothing can be written there.
	writable(ctx context.Context) error
}

func openRepository(at string) repository {
	if objectstore.IsAddress(at) {
		return bucket(at)
	}
	return folder(at)
}

// found is a folder of a repository that Sluice has made for a release.
type found struct {
	name, version string
	temporary     bool // it is being written or removed, or was when the process ended
}

// folderName is what the folder of a model may be called.
var folderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// ours matches the names of a target's models: a version, the part of an ensemble, and what follows the name of one that is temporary.
func ours(owner, target string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(prefix(target, owner)) + `([1-9][0-9]*)(-front|-engine)?(\.[A-Z2-7]+)?$`)
}

// markerFile is in the folder of each model that Sluice has made. Triton reads only config.pbtxt and the folders of versions there.
const markerFile = ".sluice.json"

// maxMarker is in bytes.
const maxMarker = 4 << 10

// marker says what a folder is.
type marker struct {
	Name    string `json:"name"` // of the folder: a copy under another name is somebody else's
	Store   string `json:"store"`
	Target  string `json:"target"`
	Version string `json:"version"`
	Digest  string `json:"model"`
}

func readMarker(name string, r io.Reader) (m marker, err error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxMarker))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s/%s: %w", name, markerFile, err)
	}
	return m, nil
}

// is says why the folder with another marker is not the one that is wanted.
func (m marker) is(have marker) error {
	if have == m {
		return nil
	}
	return fmt.Errorf("its folder %s is release %s of %s with the model %s, and not with %s: two copies of one store seem to serve here; "+
		"use another repository for one of them", m.Name, have.Version, have.Target, have.Digest, m.Digest)
}

// foreign is the error of a folder that has no marker.
func (m marker) foreign() error {
	return fmt.Errorf("it has a folder %s already, which Sluice has not made: remove it, or give it another name", m.Name)
}

// names are those of a release's models, an ensemble after the models that it is of.
func (m *model) names() []string {
	names := map[string]bool{}
	for at := range m.layout.Texts {
		name, _, _ := strings.Cut(at, "/")
		names[name] = true
	}
	sorted := slices.Sorted(maps.Keys(names))
	slices.Reverse(sorted)
	return sorted
}

// marked is the marker of one of its models.
func (m *model) marked(name string) marker {
	marked := m.marker
	marked.Name = name
	return marked
}

// file is one of a model, by its path in the model's folder.
type file struct {
	at   string
	made bool // of the release and the target's settings, rather than a file of the artifact
	open func(ctx context.Context) (io.ReadCloser, error)
}

// files are those of one of its models.
func (m *model) files(s *store.Store, name string) []file {
	var files []file
	for at, text := range m.layout.Texts {
		if at, ok := strings.CutPrefix(at, name+"/"); ok {
			files = append(files, file{at, true, func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(text)), nil
			}})
		}
	}
	for at, f := range m.layout.Files {
		if at, ok := strings.CutPrefix(at, name+"/"); ok {
			files = append(files, file{at, false, func(ctx context.Context) (io.ReadCloser, error) { return s.Blob(ctx, f.Digest) }})
		}
	}
	return files
}
