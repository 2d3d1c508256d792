package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
)

// PutFolder stores a folder of an artifact of this store as an artifact of its own, the same one that PutTree would create. No file is
// copied.
func (s *Store) PutFolder(
	ctx context.Context, typ artifact.Type, of artifact.Ref, folder string, meta map[string]string,
) (artifact.Ref, error) {
	whole, err := s.Manifest(ctx, of)
	if err != nil {
		return artifact.Ref{}, err
	}
	m := artifact.Manifest{Type: typ, Meta: meta}
	for _, f := range whole.Files {
		var within bool
		if f.Path, within = strings.CutPrefix(f.Path, folder+"/"); within {
			m.Files = append(m.Files, f)
		}
	}
	if len(m.Files) == 0 {
		return artifact.Ref{}, fmt.Errorf("%s %s has no folder %s", of.Type, of.Digest, folder)
	}
	return s.putManifest(ctx, m)
}
