package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/pipelines/format"
)

const (
	// inPlaceBytes and inPlaceFiles bound what is read of the files of one pattern, where a step waits to begin. Of more the sizes and the
	// times of modification and change count, as in a cleaning's own cache.
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
func (e *Engine) keyParts(
	ctx context.Context, sub *Submitted, run string, node spec.Node, vars spec.Vars, resolved *dsl.Resolved,
) (map[string]string, uncached, error) {
	var why uncached
	parts, err := e.parts(ctx, sub, node, *resolved)
	if err != nil {
		return nil, why, err
	}
	if err := e.addNeeds(ctx, sub, run, node, vars, resolved.Cache.Enabled, parts); err != nil {
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
			_, digest, err := e.inPlaceDigest(ctx, pattern)
			if ctx.Err() != nil {
				return nil, why, context.Cause(ctx)
			}
			if err != nil { // the step itself says so
				parts[partRead+pattern], resolved.Cache.Enabled, resolved.InPlace = rand.Text(), false, nil
				return parts, uncached{reason: "it would fail: " + err.Error(), fails: true}, nil
			}
			parts[partRead+pattern] = digest
		}
	}
	if why.reason != "" && !resolved.CacheGiven {
		resolved.Cache.Enabled = false
	}
	return parts, why, nil
}

// partRead begins the names of the parts that stand for files read in place; a pattern follows.
const partRead = "read."

// readInPlace are the digests of the files that a step with these parts reads in place, by pattern.
func readInPlace(resolved dsl.Resolved, parts map[string]string) map[string]string {
	digests := map[string]string{}
	for _, pattern := range resolved.InPlace {
		if digest := parts[partRead+pattern]; digest != "" {
			digests[pattern] = digest
		}
	}
	return digests
}

// InPlace are files of this machine that a step reads by their path.
type InPlace struct {
	Files []format.File
	// Contents are the digests of the files whose content was read, by path.
	Contents map[string]string
}

// ListInPlace lists the files that a step reads in place, given their digests by pattern. keyed is false if the files are not those of the
// digests any more, because some have come or changed while the step waited to begin: its key does not stand for the result then.
func (e *Engine) ListInPlace(ctx context.Context, digests map[string]string) (all InPlace, keyed bool, err error) {
	all.Contents, keyed = map[string]string{}, true
	for _, pattern := range slices.Sorted(maps.Keys(digests)) {
		found, digest, err := e.inPlaceDigest(ctx, pattern)
		if err != nil {
			return InPlace{}, false, err
		}
		keyed = keyed && digest == digests[pattern]
		all.Files = append(all.Files, found.Files...)
		maps.Copy(all.Contents, found.Contents)
	}
	return all, keyed, nil
}

// inPlaceDigest lists the files of this machine that a pattern matches, and makes a digest of them.
func (e *Engine) inPlaceDigest(ctx context.Context, pattern string) (found InPlace, digest string, err error) {
	files, err := format.Find(ctx, []string{pattern})
	if err != nil {
		return InPlace{}, "", err
	}
	found = InPlace{Files: files, Contents: map[string]string{}}
	var bytes int64
	for _, f := range files {
		bytes += f.Size
	}
	sum := sha256.New()
	for _, f := range files {
		known := fmt.Sprintf("%q of %d bytes", f.Path, f.Size)
		if bytes > inPlaceBytes || len(files) > inPlaceFiles {
			// Programs such as tar set the time of modification, and it can be that of the file before.
			known = fmt.Sprintf("%s at %d, changed at %d", known, f.Stamp.Modified, f.Stamp.Changed)
		} else {
			content, err := e.contentOf(ctx, f)
			if err != nil {
				return InPlace{}, "", err
			}
			known += " with " + content
			found.Contents[f.Path] = "sha256:" + content
		}
		fmt.Fprintln(sum, known) //nolint:errcheck // a hash takes everything
	}
	return found, hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// contentOf is the digest of a file. It fails if that is no longer what was listed.
func (e *Engine) contentOf(ctx context.Context, listed format.File) (string, error) {
	known := fmt.Sprintf("%q of %d bytes, %+v", listed.Path, listed.Size, listed.Stamp)
	if d, ok := e.inPlace.find(known); ok {
		return d, nil
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	isSettled := time.Since(time.Unix(0, max(listed.Stamp.Modified, listed.Stamp.Changed))) > settled
	f, err := os.Open(listed.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !listed.Same(info) {
		return "", fault.Errorf(fault.User, "%s changed while it was read", listed.Path)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if isSettled {
		e.inPlace.put(known, digest)
	}
	return digest, nil
}
