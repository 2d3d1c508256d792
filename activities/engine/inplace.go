package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/pipelines/format"
)

const (
	// inPlaceBytes and inPlaceFiles bound what is read of the files of one pattern, where a step waits to begin. Of more the sizes and the
	// times of change count, as in a cleaning's own cache.
	inPlaceBytes = 256 << 20
	inPlaceFiles = 10_000
	// settled is how long ago a file was changed whose next change has another time.
	settled = 2 * time.Second
)

// uncached is why results of a step are not cached although the document does not say so.
type uncached struct {
	reason string
	// fails: the step would fail.
	fails bool
}

// keyParts are the parts of a step's key, with those for the files that it reads in place. Where these are not known, the step is not
// cached, unless the document says so.
func (e *Engine) keyParts(ctx context.Context, sub *Submitted, node spec.Node, resolved *dsl.Resolved) (map[string]string, uncached, error) {
	var why uncached
	parts, err := e.parts(ctx, sub, node, *resolved)
	if err != nil {
		return nil, why, err
	}
	if kinds[node.Kind].resumes {
		why, err = e.pinResume(ctx, resolved, parts)
		if why.fails || err != nil {
			return parts, why, err
		}
	}
	for _, pattern := range resolved.InPlace {
		switch {
		case objectstore.IsAddress(pattern):
			object, _, _ := strings.Cut(pattern, "?")
			why.reason = "it reads files that are not part of its key: " + object
		case !e.Here:
			why.reason = "it reads files that are not part of its key, since they are on machines of the cluster: " + pattern
		default:
			digest, err := e.inPlaceDigest(ctx, pattern)
			if ctx.Err() != nil {
				return nil, why, context.Cause(ctx)
			}
			if err != nil { // the step itself says so
				parts["read."+pattern], resolved.Cache.Enabled = rand.Text(), false
				return parts, uncached{reason: "it would fail: " + err.Error(), fails: true}, nil
			}
			parts["read."+pattern] = digest
		}
	}
	if why.reason != "" && !resolved.CacheGiven {
		resolved.Cache.Enabled = false
	}
	return parts, why, nil
}

// inPlaceDigest is one of the files of this machine that a pattern matches.
func (e *Engine) inPlaceDigest(ctx context.Context, pattern string) (string, error) {
	files, err := format.Find(ctx, []string{pattern})
	if err != nil {
		return "", err
	}
	var bytes int64
	for _, f := range files {
		bytes += f.Size
	}
	sum := sha256.New()
	for _, f := range files {
		info, err := os.Stat(f.Path)
		if err != nil {
			return "", err
		}
		known := fmt.Sprintf("%q of %d bytes", f.Path, info.Size())
		if changed := info.ModTime(); bytes > inPlaceBytes || len(files) > inPlaceFiles {
			known = fmt.Sprintf("%s at %d", known, changed.UnixNano())
		} else {
			content, err := e.contentOf(ctx, f.Path, changed, fmt.Sprintf("%s at %d", known, changed.UnixNano()))
			if err != nil {
				return "", err
			}
			known += " with " + content
		}
		fmt.Fprintln(sum, known) //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// contentOf is the digest of a file that was changed at a time; known is what it is remembered under.
func (e *Engine) contentOf(ctx context.Context, path string, changed time.Time, known string) (string, error) {
	if d, ok := e.inPlace.find(known); ok {
		return d, nil
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	isSettled := time.Since(changed) > settled
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if isSettled {
		e.inPlace.put(known, digest)
	}
	return digest, nil
}
