package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

const (
	// partBytes is how much of a large object travels, and is held in memory, at a time, and partsAtOnce how many such parts of one do.
	// S3 takes 10,000 of them.
	partBytes   = 8 << 20
	partsAtOnce = 2
	// writeMark names what is stored with an object to tell the write that made it from others.
	writeMark = "sluice-write"
	// contended is how often a conditional write is tried that S3 gives up for another one, and contendedWait how long it waits first.
	contended     = 8
	contendedWait = 50 * time.Millisecond
)

func (d *bucketDriver) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	if err := checkKeys(key, opts); err != nil {
		return err
	}
	if opts.LinkAs == "" && !opts.IfAbsent {
		return d.put(ctx, key, r, blob.WriterOptions{})
	}
	content, ok := r.(io.ReadSeeker) // it is read more than once
	if !ok {
		data, err := io.ReadAll(ctxReader{ctx, r})
		if err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		content = bytes.NewReader(data)
	}
	if opts.LinkAs != "" {
		if err := d.put(ctx, opts.LinkAs, content, blob.WriterOptions{}); err != nil {
			return err
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	if opts.IfAbsent {
		return d.create(ctx, key, content)
	}
	return d.put(ctx, key, content, blob.WriterOptions{})
}

// create writes an object unless there is one with its key. When an answer is lost, the client asks again and hears that the object is
// there: what is stored with it tells whether it is ours.
func (d *bucketDriver) create(ctx context.Context, key string, content io.ReadSeeker) error {
	mark := rand.Text()
	for try := range contended {
		err := d.put(ctx, key, content, blob.WriterOptions{IfNotExist: true, Metadata: map[string]string{writeMark: mark}})
		switch {
		case err == nil:
			return nil
		case cloud.Changed(err):
			return d.patience.retry(ctx, func() error {
				there, err := d.bucket.Attributes(ctx, d.at.Path+key)
				if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
					return d.fail(ctx, "write", key, err)
				}
				if err == nil && there.Metadata[writeMark] == mark {
					return nil
				}
				return fmt.Errorf("write %s: %w", key, ErrExists)
			})
		case !cloud.Contended(err):
			return err
		}
		select {
		case <-time.After(contendedWait << try):
		case <-ctx.Done():
			return fmt.Errorf("write %s: %w", key, context.Cause(ctx))
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	return fmt.Errorf("write %s: too many concurrent writers", key)
}

// put writes one object, again when the bucket was away and the content can be read again.
func (d *bucketDriver) put(ctx context.Context, key string, r io.Reader, opts blob.WriterOptions) error {
	content, ok := r.(io.Seeker)
	if !ok || d.patience == nil {
		return d.putOnce(ctx, key, r, opts)
	}
	start, err := content.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return d.patience.retry(ctx, func() error {
		if _, err := content.Seek(start, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		return d.putOnce(ctx, key, r, opts)
	})
}

func (d *bucketDriver) putOnce(ctx context.Context, key string, r io.Reader, opts blob.WriterOptions) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write %s: %w", key, context.Cause(ctx))
	}
	within, cancel := context.WithCancel(cloud.WithRetryParts(ctx, func(send func() error) error {
		return d.patience.retry(ctx, func() error {
			err := send()
			if err != nil {
				err = d.fail(ctx, "write", key, err)
			}
			return err
		})
	}))
	defer cancel()
	from := &source{r: ctxReader{ctx, r}}
	var content io.Reader = from
	opts.ContentType, opts.BufferSize, opts.MaxConcurrency = "application/octet-stream", partBytes, partsAtOnce
	if d.at.Scheme != objectstore.S3 {
		// Google's client, as that of memory, takes the end of what it reads for the end of the object, whatever the reason, and a buffer
		// for any object.
		from.failed = cancel
		content, opts.BufferSize = sized(from)
	}
	err := d.bucket.Upload(within, d.at.Path+key, content, &opts)
	switch {
	case from.err != nil:
		return fmt.Errorf("write %s: %w", key, from.err)
	case err == nil:
		return nil
	}
	return d.fail(ctx, "write", key, err)
}

// sized says how much of a buffer a content needs: most objects are small.
func sized(r io.Reader) (content io.Reader, buffer int) {
	const small = 256 << 10 // the least that Google's client takes
	head := make([]byte, small)
	n, err := io.ReadFull(r, head)
	if err != nil { // all of it was read; or the reader's error, which source remembers
		return bytes.NewReader(head[:n]), small
	}
	return io.MultiReader(bytes.NewReader(head), r), partBytes
}

// source remembers the error of a reader.
type source struct {
	r      io.Reader
	failed context.CancelFunc
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		if s.failed != nil {
			s.failed()
		}
	}
	return n, err
}
