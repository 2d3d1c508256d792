package pipelines

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// cachedPiece is the header of a cache entry: what a segment produced from one piece of a file. Its marks are relative to the entry's own
// spilled rows, which follow the header; after them come the dead-letter rows.
//
// An entry consists of the length of the header (8 bytes), the header, the spilled rows, the dead-letter rows, and a CRC-32C of all of it
// (4 bytes).
type cachedPiece struct {
	Marks       map[groupKey][]byte
	Counts      account.Ledger
	Profiles    map[string][]byte // as JSON
	File        *account.FileCount
	Spill, Dead int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// path returns the path of the entry for a key.
func (c Cache) path(key string) string { return filepath.Join(c.Dir, key[:2], key) }

// cached runs a piece through the segment, or reuses the cached result of an earlier run. If the piece has a cache key, all its rows have
// reached their ends before cached returns, so that its result is complete and holds no other piece's rows.
func (u *task) cached(p format.Piece, key string, read func() error) error {
	if key == "" {
		return read()
	}
	path := u.job.Cache.path(key)
	switch err := u.reuse(path, p); {
	case err == nil:
		u.session.bytes.Add(p.End - p.Start)
		return nil
	case !errors.Is(err, errNotCached):
		return err
	}
	before, files := u.unitResult, u.files
	u.unitResult, u.files = newUnitResult(), account.FileCounts{}
	spillAt, deadAt := u.spill.Size(), u.dead.At
	u.caching = true
	err := read()
	if err == nil {
		err = u.drain()
	}
	if err == nil {
		err = p.File.Unchanged() // the key is of what was listed
	}
	if err == nil && u.caching {
		err = u.store(path, p, spillAt, deadAt)
	}
	before.add(u.unitResult)
	files.Add(u.files)
	u.unitResult, u.files = before, files
	return err
}

func newUnitResult() unitResult {
	return unitResult{outcome{counts: account.Ledger{}}, map[groupKey][]byte{}, map[string]*columns.Profile{}}
}

func (r *unitResult) add(o unitResult) {
	for group, packed := range o.marks {
		r.marks[group] = append(r.marks[group], packed...)
	}
	r.packs = append(r.packs, o.packs...)
	account.AddCounts(r.counts, o.counts)
	addProfiles(r.profiles, o.profiles)
}

// move returns a copy of packed marks for rows that were moved to another spill file.
func move(packed []byte, to spill.ID, by uint64) ([]byte, error) {
	out := bytes.Clone(packed)
	return out, spill.EachMark(out, func(m spill.Packed) { m.Move(to, by) })
}

// store writes a cache entry for a piece: the unit's result, and its spilled and rejected rows from the given offsets on. A cache that
// cannot be written does not fail the job.
func (u *task) store(path string, p format.Piece, spillAt uint64, deadAt int64) error {
	if err := errors.Join(u.spill.Flush(), u.dead.Flush()); err != nil {
		return err
	}
	head := cachedPiece{
		Marks: map[groupKey][]byte{}, Counts: u.counts, Profiles: map[string][]byte{}, File: u.files.Of(p.File.Name),
		Spill: int64(u.spill.Size() - spillAt), Dead: u.dead.At - deadAt,
	}
	for group, packed := range u.marks {
		moved, err := move(packed, spill.ID{}, -spillAt)
		if err != nil {
			return err
		}
		head.Marks[group] = moved
	}
	for name, p := range u.profiles {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		head.Profiles[name] = text
	}
	temporary := filepath.Join(u.job.WorkDir, fmt.Sprintf("cache-%d-%d", u.id.Segment, u.id.Unit))
	if u.session.cached.Add(head.Spill+head.Dead) > u.job.Cache.Limit ||
		u.write(temporary, head, spillAt, deadAt) != nil ||
		os.MkdirAll(filepath.Dir(path), 0o777) != nil ||
		os.Rename(temporary, path) != nil {
		_ = os.Remove(temporary)
	}
	return nil
}

// write writes an entry to a file.
func (u *task) write(path string, head cachedPiece, spillAt uint64, deadAt int64) error {
	var encoded bytes.Buffer
	if err := gob.NewEncoder(&encoded).Encode(head); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	buffered := bufio.NewWriterSize(f, 256<<10)
	out := io.MultiWriter(buffered, sum)
	_, _ = out.Write(binary.BigEndian.AppendUint64(nil, uint64(encoded.Len()))) // an error is sticky: Flush returns it
	_, _ = out.Write(encoded.Bytes())
	err = copyRange(out, u.spill.Name(), int64(spillAt), head.Spill)
	if err == nil && head.Dead > 0 {
		err = copyRange(out, u.dead.Path, deadAt, head.Dead)
	}
	_, _ = buffered.Write(sum.Sum(nil))
	return errors.Join(err, buffered.Flush(), f.Close())
}

func copyRange(to io.Writer, path string, at, n int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(to, io.NewSectionReader(f, at, n), n)
	return err
}

var errNotCached = errors.New("the cache does not have it")

// reuse adds the cached result of a piece to the unit. A damaged entry counts as missing.
func (u *task) reuse(path string, p format.Piece) error {
	f, err := os.Open(path)
	if err != nil {
		return errNotCached
	}
	defer f.Close()
	head, rows, err := readEntry(f)
	if err != nil {
		return errNotCached
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // prune removes the least recently used
	profiles := map[string]*columns.Profile{}
	for name, text := range head.Profiles {
		if profiles[name], err = columns.ParseProfile(text); err != nil {
			return errNotCached
		}
	}
	addProfiles(u.profiles, profiles)
	for group, packed := range head.Marks {
		moved, err := move(packed, u.id, u.spill.Size())
		if err != nil {
			return err
		}
		u.marks[group] = append(u.marks[group], moved...)
	}
	account.AddCounts(u.counts, head.Counts)
	u.counts[[2]string{account.CountReused, account.AllRead}] += head.File.Read
	u.files.Of(p.File.Name).Add(head.File)
	u.session.read.Add(head.File.Read)
	if err := u.spill.Take(io.LimitReader(rows, head.Spill)); err != nil {
		return err
	}
	if head.Dead == 0 {
		return nil
	}
	return u.dead.Take(io.LimitReader(rows, head.Dead))
}

// readEntry verifies an entry and returns its header and a reader of what follows it.
func readEntry(f *os.File) (head cachedPiece, rows io.Reader, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() < 12 {
		return head, nil, errNotCached
	}
	sum := crc32.New(castagnoli)
	if _, err := io.CopyN(sum, f, info.Size()-4); err != nil {
		return head, nil, err
	}
	var want [4]byte
	if _, err := io.ReadFull(f, want[:]); err != nil || !bytes.Equal(want[:], sum.Sum(nil)) {
		return head, nil, errNotCached
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return head, nil, err
	}
	var size uint64
	if err := binary.Read(f, binary.BigEndian, &size); err != nil {
		return head, nil, err
	}
	rows = bufio.NewReaderSize(f, 256<<10)
	encoded := io.LimitReader(rows, int64(size))
	if err := gob.NewDecoder(encoded).Decode(&head); err != nil {
		return head, nil, err
	}
	if _, err := io.Copy(io.Discard, encoded); err != nil {
		return head, nil, err
	}
	if int64(size)+head.Spill+head.Dead+12 != info.Size() || head.File == nil {
		return head, nil, errNotCached
	}
	return head, rows, nil
}

// prune removes the least recently used entries until the cache is within its limit.
func (c Cache) prune() error {
	if c.Dir == "" {
		return nil
	}
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var entries []entry
	var size int64
	err := filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another job has removed it
		}
		if err != nil {
			return err
		}
		entries = append(entries, entry{path, info.Size(), info.ModTime()})
		size += info.Size()
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, e := range entries {
		if size <= c.Limit {
			break
		}
		if removeErr := os.Remove(e.path); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		size -= e.size
	}
	return err
}
