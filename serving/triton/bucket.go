package triton

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/store"
)

// bucket is a model repository in a bucket, or in a folder of one, which is used as if it was a store. Objects appear whole, and Triton reads
// those of a model when it is told to load it.
type bucket string

func (b bucket) open(ctx context.Context) (store.Driver, error) {
	s, err := store.Open(ctx, string(b))
	if err != nil {
		return nil, fmt.Errorf("the model repository: %w", err)
	}
	return s.Driver(), nil
}

// publish implements repository.
func (b bucket) publish(ctx context.Context, s *store.Store, m *model) error {
	to, err := b.open(ctx)
	if err != nil {
		return err
	}
	for _, name := range m.names() {
		err := claim(ctx, to, m.marked(name))
		for _, f := range m.files(s, name) {
			if err == nil {
				err = copyTo(ctx, to, name+"/"+f.at, f)
			}
		}
		if err != nil {
			return fmt.Errorf("write the model to the repository: %w", err)
		}
	}
	return nil
}

// claim writes the marker of a model, which is there before the rest of it.
func claim(ctx context.Context, to store.Driver, wanted marker) error {
	have, err := markerIn(ctx, to, wanted.Name)
	if err == nil {
		return wanted.is(have)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, err := range to.List(ctx, wanted.Name+"/") {
		if err != nil {
			return err
		}
		return wanted.foreign()
	}
	raw, err := json.Marshal(wanted)
	if err == nil {
		err = to.Write(ctx, path.Join(wanted.Name, markerFile), bytes.NewReader(raw), store.WriteOptions{IfAbsent: true})
	}
	if errors.Is(err, store.ErrExists) { // another gateway was faster
		if have, err = markerIn(ctx, to, wanted.Name); err == nil {
			err = wanted.is(have)
		}
	}
	return err
}

func markerIn(ctx context.Context, from store.Driver, name string) (marker, error) {
	r, err := from.Read(ctx, path.Join(name, markerFile))
	if err != nil {
		return marker{}, err
	}
	defer r.Close()
	return readMarker(name, r)
}

// copyTo writes a file, unless it is there: what a name stands for never changes, though the target's settings may. Objects appear whole.
func copyTo(ctx context.Context, to store.Driver, key string, f file) error {
	if _, err := to.Stat(ctx, key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	content, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	// One that is made by settings may be another gateway's meanwhile. All others are the same, and too large to be held in memory for this.
	err = to.Write(ctx, key, content, store.WriteOptions{IfAbsent: f.made})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// list implements repository.
func (b bucket) list(ctx context.Context, owner, target string) ([]found, error) {
	from, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	ours, last := ours(owner, target), ""
	var list []found
	for info, err := range from.List(ctx, prefix(target, owner)) {
		if err != nil {
			return nil, fmt.Errorf("the model repository: %w", err)
		}
		name, _, _ := strings.Cut(info.Key, "/")
		parts := ours.FindStringSubmatch(name)
		if name == last || parts == nil {
			continue
		}
		last = name
		have, err := markerIn(ctx, from, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, fmt.Errorf("the model repository: %w", err)
		case have.Name == name && have.Store == owner && have.Target == target && have.Version == parts[1]:
			list = append(list, found{name: name, version: parts[1]})
		}
	}
	// The keys have another order: "v1-engine/..." is before "v1/...".
	slices.SortFunc(list, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// remove implements repository. The marker goes last, so that the rest is found again when this ends before it is done.
func (b bucket) remove(ctx context.Context, name string) error {
	from, err := b.open(ctx)
	if err != nil {
		return err
	}
	mark := path.Join(name, markerFile)
	var doomed []string
	for info, err := range from.List(ctx, name+"/") {
		if err != nil {
			return fmt.Errorf("remove %s from the model repository: %w", name, err)
		}
		if info.Key != mark {
			doomed = append(doomed, info.Key)
		}
	}
	for _, key := range append(doomed, mark) {
		if err := from.Delete(ctx, key); err != nil {
			return fmt.Errorf("remove %s from the model repository: %w", name, err)
		}
	}
	return nil
}

// writable implements repository.
func (b bucket) writable(ctx context.Context) error {
	to, err := b.open(ctx)
	if err != nil {
		return err
	}
	key := temporaryPrefix + rand.Text()
	if err = to.Write(ctx, key, strings.NewReader(""), store.WriteOptions{}); err == nil {
		err = to.Delete(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("the model repository: %w", err)
	}
	return nil
}
