package format

import (
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

// bucketScheme matches the scheme of a URL.
var bucketScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)

// inBucket reports whether a pattern is a URL and not a local path.
func inBucket(pattern string) bool { return bucketScheme.MatchString(pattern) }

// parseBucketPath parses s3://bucket/pattern?region=...&endpoint=... or gs://bucket/pattern.
func parseBucketPath(text string) (objectstore.Address, error) {
	if !objectstore.IsAddress(text) {
		return objectstore.Address{}, fault.Errorf(fault.Invalid, "path %q: only folders, s3:// and gs:// are supported", text)
	}
	at, err := objectstore.Parse(text)
	switch {
	case err != nil && strings.Contains(text, "?"):
		return at, fault.Errorf(fault.Invalid, "path %q: %w; the wildcard ? is not supported here", text, err)
	case err != nil:
		return at, fault.Errorf(fault.Invalid, "path %q: %w", text, err)
	case at.Path == "":
		return at, fault.Errorf(fault.Invalid, "path %q: write %s://BUCKET/PATTERN", text, at.Scheme)
	}
	return at, nil
}

var buckets sync.Map // func() (*blob.Bucket, error) by address; buckets stay open until the process ends

// openBucket opens each bucket once.
func openBucket(at objectstore.Address) (*blob.Bucket, error) {
	once, _ := buckets.LoadOrStore(at, sync.OnceValues(func() (*blob.Bucket, error) {
		return cloud.Open(context.Background(), at) // the bucket outlives the caller's context
	}))
	return once.(func() (*blob.Bucket, error))()
}

// findObjects lists the objects that a pattern matches.
func findObjects(ctx context.Context, text string) ([]File, error) {
	at, err := parseBucketPath(text)
	if err != nil {
		return nil, err
	}
	segments := strings.Split(at.Path, "/")
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return nil, fault.Errorf(fault.Invalid, "path %q: %w", text, err)
		}
	}
	within := at
	within.Path = ""
	opened, err := openBucket(within)
	if err != nil {
		return nil, bucketFault("open", at.Root(), at, err)
	}
	var files []File
	objects := opened.List(&blob.ListOptions{Prefix: literalPrefix(at.Path)})
	for {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, bucketFault("list", at.Root(), at, err)
		}
		if !strings.HasSuffix(o.Key, "/") && matchName(segments, strings.Split(o.Key, "/")) {
			files = append(files, File{Path: o.Key, Name: at.Root() + o.Key, Size: o.Size, Bucket: within, Version: cloud.Version(o)})
		}
	}
}

// literalPrefix returns the prefix that all keys matching a pattern have in common.
func literalPrefix(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// IsObject reports whether the file is an object in a bucket.
func (f File) IsObject() bool { return f.Bucket != objectstore.Address{} }

// object reads length bytes of an object from an offset, or all that follow if length is negative. It fails if the object has changed since
// it was listed.
func (f File) object(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	opened, err := openBucket(f.Bucket)
	if err != nil {
		return nil, bucketFault("open", f.Name, f.Bucket, err)
	}
	r, err := cloud.ReadVersion(ctx, opened, f.Path, f.Version, offset, length)
	switch {
	case err != nil && (cloud.Changed(err) || gcerrors.Code(err) == gcerrors.NotFound):
		return nil, f.changed()
	case err != nil:
		return nil, bucketFault("read", f.Name, f.Bucket, err)
	}
	if r.Size() != f.Size {
		return nil, errors.Join(f.changed(), r.Close())
	}
	return r, nil
}

// bucketFault wraps an error of a bucket: an invalid address or configuration is of type invalid, anything else of type infrastructure.
func bucketFault(what, where string, at objectstore.Address, err error) error {
	why := cloud.Explain(at, err)
	if why.Invalid {
		return fault.Errorf(fault.Invalid, "%s %s: %w", what, where, why)
	}
	return fault.Errorf(fault.Infrastructure, "%s %s: %w", what, where, why)
}

// objectAt reads an object by ranges, with one request each.
type objectAt struct {
	ctx  context.Context
	file File
}

// ReadAt implements io.ReaderAt.
func (o objectAt) ReadAt(b []byte, at int64) (int, error) {
	if at >= o.file.Size {
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), o.file.Size-at)]
	r, err := o.file.object(o.ctx, at, int64(len(want)))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	n, err := io.ReadFull(r, want)
	if err != nil {
		return n, bucketFault("read", o.file.Name, o.file.Bucket, err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
