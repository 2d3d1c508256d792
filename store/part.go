package store

import (
	"context"
	"io"
	"iter"
)

// Part returns a store within the store. It shares nothing with the rest of the store, and RemovePart can remove it as a whole while others
// write. It is for large data that comes and goes. The name of a part is a key, and must not be a folder of the name of another part.
func (s *Store) Part(name string) *Store {
	return New(part{s.driver, PartsPrefix + name + "/"}, s.url).Near(s.near)
}

// RemovePart removes a part with all its content. A missing part is not an error.
func (s *Store) RemovePart(ctx context.Context, name string) error {
	return s.RemoveAll(ctx, PartsPrefix+name+"/")
}

// RemoveAll removes all objects whose keys start with prefix.
func (s *Store) RemoveAll(ctx context.Context, prefix string) error {
	keys, err := s.Keys(ctx, prefix)
	if err != nil {
		return err
	}
	return Each(ctx, len(keys), func(ctx context.Context, i int) error { return s.driver.Delete(ctx, keys[i]) })
}

// part is the driver of a part. It adds a prefix to every key.
type part struct {
	whole  Driver
	prefix string
}

func (p part) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	return p.whole.Read(ctx, p.prefix+key)
}

func (p part) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	if opts.LinkAs != "" {
		opts.LinkAs = p.prefix + opts.LinkAs
	}
	return p.whole.Write(ctx, p.prefix+key, r, opts)
}

func (p part) Stat(ctx context.Context, key string) (Info, error) {
	info, err := p.whole.Stat(ctx, p.prefix+key)
	return p.within(info), err
}

func (p part) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range p.whole.List(ctx, p.prefix+prefix) {
			if !yield(p.within(info), err) {
				return
			}
		}
	}
}

// within removes the prefix from the key of an object.
func (p part) within(info Info) Info {
	if len(info.Key) >= len(p.prefix) {
		info.Key = info.Key[len(p.prefix):]
	}
	return info
}

func (p part) Sync(ctx context.Context, keys []string) error {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = p.prefix + key
	}
	return p.whole.Sync(ctx, all)
}

func (p part) Delete(ctx context.Context, key string) error {
	return p.whole.Delete(ctx, p.prefix+key)
}
