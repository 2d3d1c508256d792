package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// memDriver keeps objects in this process's memory: for tests, and the reference for what a driver does.
type memDriver struct {
	mu      sync.RWMutex
	objects map[string]memObject
}

// memObject is what Write was given, and when.
type memObject struct {
	data     []byte
	modified time.Time
}

// memDrivers holds the drivers by name, so that Open of one address twice gives one store.
var memDrivers sync.Map

func openMem(name string) Driver {
	d, _ := memDrivers.LoadOrStore(name, &memDriver{objects: map[string]memObject{}})
	return d.(*memDriver)
}

func (d *memDriver) Read(_ context.Context, key string) (io.ReadCloser, error) {
	o, err := d.get("read", key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(o.data)), nil
}

func (d *memDriver) Stat(_ context.Context, key string) (Info, error) {
	o, err := d.get("stat", key)
	return Info{Key: key, Bytes: int64(len(o.data)), Modified: o.modified}, err
}

func (d *memDriver) get(op, key string) (memObject, error) {
	if err := checkKey(key); err != nil {
		return memObject{}, err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.objects[key]
	if !ok {
		return memObject{}, fmt.Errorf("%s %s: %w", op, key, ErrNotFound)
	}
	return o, nil
}

func (d *memDriver) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	if err := checkKeys(key, opts); err != nil {
		return err
	}
	data, err := io.ReadAll(ctxReader{ctx, r})
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.objects[key]; taken && opts.IfAbsent {
		return fmt.Errorf("write %s: %w", key, ErrExists)
	}
	if opts.Also != "" {
		if err := d.put(opts.Also, data); err != nil {
			return err
		}
	}
	return d.put(key, data)
}

func (d *memDriver) put(key string, data []byte) error {
	for other := range d.objects {
		if strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/") {
			return fmt.Errorf("write %s: %w: there is %s, and no key can be a folder of another", key, ErrKey, other)
		}
	}
	d.objects[key] = memObject{data, time.Now()}
	return nil
}

func (d *memDriver) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := checkChars(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		d.mu.RLock()
		objects := maps.Clone(d.objects)
		d.mu.RUnlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(Info{}, err)
				return
			}
			if !yield(Info{Key: key, Bytes: int64(len(objects[key].data)), Modified: objects[key].modified}, nil) {
				return
			}
		}
	}
}

func (d *memDriver) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.objects, key)
	return nil
}

// Sync implements Driver: what is in memory is as durable as it gets.
func (d *memDriver) Sync(context.Context, []string) error { return nil }

// ctxReader ends a copy when its context does.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
