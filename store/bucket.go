package store

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

// bucketDriver stores each object in a bucket, under a common prefix.
//
// A bucket shows an object once it is complete and durable, and create-if-absent is a conditional write. Unlike a file system, a bucket has
// no hard links, and it allows a key to be a folder of another.
type bucketDriver struct {
	bucket   *blob.Bucket
	at       objectstore.Address
	patience *Patience // nil: do not wait
}

// openBucket opens the store under a prefix of a bucket, and checks that the bucket can be listed.
func openBucket(ctx context.Context, url string) (Driver, error) {
	at, err := objectstore.ParseFolder(url)
	if err == nil && at.Path != "" {
		err = checkKey(strings.TrimSuffix(at.Path, "/"))
	}
	if err != nil { // without the address, which may contain a password
		return nil, fmt.Errorf("open the store in a bucket: %w", err)
	}
	b, err := cloud.Open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", url, err)
	}
	d := &bucketDriver{bucket: b, at: at}
	// List once now: a later read from a bucket that does not exist only reports that the object is not found.
	if _, _, err := b.ListPage(ctx, blob.FirstPageToken, 1, &blob.ListOptions{Prefix: at.Path}); err != nil {
		return nil, fmt.Errorf("open store %s: %w", url, cloud.Explain(at, err))
	}
	return d, nil
}

func (d *bucketDriver) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	r := &bucketReader{ctx: ctx, driver: d, key: key}
	if err := r.open(); err != nil {
		return nil, err
	}
	r.version = cloud.VersionRead(r.from)
	return r, nil
}

func (d *bucketDriver) Stat(ctx context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	info := Info{Key: key}
	return info, d.patience.retry(ctx, func() error {
		attributes, err := d.bucket.Attributes(ctx, d.at.Path+key)
		if err != nil {
			return d.fail(ctx, "stat", key, err)
		}
		info.Bytes, info.Modified = attributes.Size, attributes.ModTime
		return nil
	})
}

func (d *bucketDriver) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := checkChars(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		objects := d.bucket.List(&blob.ListOptions{Prefix: d.at.Path + prefix})
		for {
			var o *blob.ListObject
			err := d.patience.retry(ctx, func() (err error) {
				// Compare with ==: a broken connection is an error that wraps io.EOF.
				if o, err = objects.Next(ctx); err == nil || err == io.EOF { //nolint:errorlint // see above
					return context.Cause(ctx) // the bucket in memory ignores ctx
				}
				return d.fail(ctx, "list", prefix, err)
			})
			switch {
			case err != nil:
				yield(Info{}, err)
				return
			case o == nil:
				return
			}
			key := strings.TrimPrefix(o.Key, d.at.Path)
			if checkKey(key) != nil { // not an object of this store, such as a folder marker
				continue
			}
			if !yield(Info{Key: key, Bytes: o.Size, Modified: o.ModTime}, nil) {
				return
			}
		}
	}
}

// Sync implements Driver. Every write to a bucket is already durable.
func (d *bucketDriver) Sync(context.Context, []string) error { return nil }

func (d *bucketDriver) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return d.patience.retry(ctx, func() error {
		err := d.bucket.Delete(ctx, d.at.Path+key)
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return d.fail(ctx, "delete", key, err)
		}
		return nil
	})
}

// fail maps an error of the bucket to an error of Driver, and adds the operation and the key.
func (d *bucketDriver) fail(ctx context.Context, op, key string, err error) error {
	fault := cloud.Explain(d.at, err)
	looks, writes := op == "read" || op == "stat", op == "write" || op == "delete"
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case looks && gcerrors.Code(err) == gcerrors.NotFound:
		err = ErrNotFound
	case writes && fault.Full:
		err = fmt.Errorf("%w: %w", ErrFull, fault)
	case writes && fault.Nested:
		err = fmt.Errorf("%w: %w", ErrKey, fault)
	case writes && fault.Denied:
		err = fmt.Errorf("%w: %w", ErrReadOnly, fault)
	case fault.Away:
		err = fmt.Errorf("%w: %w", ErrUnavailable, fault)
	case fault.Invalid:
		err = refusal{fault}
	default:
		err = fault
	}
	return fmt.Errorf("%s %s in %s: %w", op, key, d.at.Root()+d.at.Path, err)
}

// refusal is an ErrRefused with the message of the fault alone, which already says who refused what.
type refusal struct{ *cloud.Fault }

// Unwrap returns the error's types.
func (r refusal) Unwrap() []error { return []error{ErrRefused, r.Fault} }
