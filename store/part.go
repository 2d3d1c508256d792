package store

import (
	"context"
	"io"
	"iter"
)

// Part returns a store within the store: what it has is shared with nothing outside it, and can be removed whole by RemovePart while
// others write. That is for large things that come and go. Its name is a key, and none is a folder of another's.
func (s *Store) Part(name string) *Store {
	return New(part{s.driver, PartsPrefix + name + "/"}, s.url).Near(s.near)
}

// RemovePart removes a part with all that is in it; one that is absent is no error.
func (s *Store) RemovePart(ctx context.Context, name string) error {
	return s.RemoveAll(ctx, PartsPrefix+name+"/")
}

// RemoveAll removes all objects whose keys start with prefix.
func (s *Store) RemoveAll(ctx context.Context, prefix string) error {
	var keys []string
	for info, err := range s.driver.List(ctx, prefix) {
		if err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	return Each(ctx, len(keys), func(ctx context.Context, i int) error { return s.driver.Delete(ctx, keys[i]) })
}

// part is the driver of a part: every key has a prefix.
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

// within names an object as the part does.
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
