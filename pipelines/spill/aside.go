package spill

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// Pack is data grouped by a key.
type Pack struct {
	Key  string
	Data []byte
}

// PutAside writes the data of packs to a file in the work folder, and returns packs with references to it. Beam groups only the references,
// since runners hold what they group in memory.
func PutAside(work, name string, packs []Pack) ([]Pack, error) {
	f, err := os.Create(filepath.Join(work, name))
	if err != nil {
		return nil, fmt.Errorf("put marks aside: %w", err)
	}
	out := bufio.NewWriterSize(f, 64<<10)
	refs := make([]Pack, len(packs))
	at := uint64(0)
	for i, p := range packs {
		_, _ = out.Write(p.Data) // an error is sticky: Flush returns it
		refs[i] = Pack{p.Key, newReference(at, p.Data, name)}
		at += uint64(len(p.Data))
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		return nil, fmt.Errorf("put marks aside: %w", err)
	}
	return refs, nil
}

// Reference refers to data in a file. It consists of 8 bytes each for offset and length, 4 bytes for the checksum, big endian, and the
// file's name.
type Reference []byte

// referenceHead is the length of a reference without the name.
const referenceHead = 8 + 8 + 4

func newReference(at uint64, data []byte, name string) Reference {
	ref := binary.BigEndian.AppendUint64(nil, at)
	ref = binary.BigEndian.AppendUint64(ref, uint64(len(data)))
	return append(binary.BigEndian.AppendUint32(ref, checksum(data, nil)), name...)
}

// Collect copies the references of a group, which Beam may overwrite.
func Collect(packed func(*[]byte) bool) ([]Reference, error) {
	var refs []Reference
	var ref []byte
	for packed(&ref) {
		if len(ref) < referenceHead {
			return nil, errors.New("a reference to marks is cut off")
		}
		refs = append(refs, bytes.Clone(ref))
	}
	return refs, nil
}

// size returns the length of the data.
func (r Reference) size() int64 { return int64(binary.BigEndian.Uint64(r[8:])) }

// CountMarks returns the number of marks, if they have no order and no bands.
func CountMarks(refs []Reference) int64 { return SizeOf(refs) / markHead }

// SizeOf returns the total length of the data.
func SizeOf(refs []Reference) (size int64) {
	for _, r := range refs {
		size += r.size()
	}
	return size
}

// maxGroup is about how many bytes of marks of a group are in memory at a time, if the group can be divided.
const maxGroup = 32 << 20

// InParts calls yield with the references of a group of marks: once with all of them, or, if they do not fit the memory, with one range of
// keys after the other, in ascending order.
func InParts(work, group string, refs []Reference, yield func([]Reference) error) error {
	n := min(1+SizeOf(refs)/maxGroup, maxParts)
	if n == 1 {
		return yield(refs)
	}
	divided, err := divide(work, AsideName("marks", "parts-"+group), refs, int(n))
	if err != nil {
		return fmt.Errorf("divide marks: %w", err)
	}
	for _, part := range divided {
		if err := yield(part); err != nil {
			return err
		}
	}
	return nil
}

// maxParts bounds the number of parts of a group, and partBlock is how much of a part is written at a time.
const (
	maxParts  = 256
	partBlock = 64 << 10
)

// divide writes the marks of a group to a file, divided into n ranges of keys, and returns the references of each range.
func divide(work, name string, refs []Reference, n int) ([][]Reference, error) {
	return distribute(work, name, refs, n, func(m Packed) int { return int(rows.Digest(m[:16]).Fraction() * float64(n)) })
}

// distribute writes the marks of a group to a file, divided into n parts by the function part, and returns the references of each part.
func distribute(work, name string, refs []Reference, n int, part func(Packed) int) ([][]Reference, error) {
	f, err := os.Create(filepath.Join(work, name))
	if err != nil {
		return nil, err
	}
	divided := make([][]Reference, n)
	blocks := make([][]byte, n)
	at := uint64(0)
	flush := func(i int) error {
		divided[i] = append(divided[i], newReference(at, blocks[i], name))
		at += uint64(len(blocks[i]))
		_, err := f.Write(blocks[i])
		blocks[i] = blocks[i][:0]
		return err
	}
	err = Fetch(work, refs, func(batch []byte) error {
		var failed error
		err := EachMark(batch, func(m Packed) {
			i := part(m)
			if blocks[i] = append(blocks[i], m...); len(blocks[i]) >= partBlock {
				failed = errors.Join(failed, flush(i))
			}
		})
		return errors.Join(err, failed)
	})
	for i := range blocks {
		if len(blocks[i]) > 0 {
			err = errors.Join(err, flush(i))
		}
	}
	return divided, errors.Join(err, f.Close())
}

// Sorted calls yield with the marks of a group in the order of their keys and ties, in batches of at most limit bytes. Larger groups are
// divided on disk by successive bytes of key and tie, so that it does not matter how many marks have the same key.
func Sorted(work, group string, refs []Reference, limit int64, yield func([]Mark) error) error {
	return sorted(work, "sorted-"+group, refs, limit, 0, yield)
}

// MaxSorted is the limit for groups that are sorted while other groups are being processed.
const MaxSorted = maxGroup

// sortedBytes is the length of the prefix by which marks are sorted: key and tie.
const sortedBytes = 32

func sorted(work, name string, refs []Reference, limit int64, at int, yield func([]Mark) error) error {
	if SizeOf(refs) <= limit {
		var all []byte
		if err := Fetch(work, refs, func(batch []byte) error { all = append(all, batch...); return nil }); err != nil {
			return err
		}
		return yieldMarks(all, yield)
	}
	at, err := firstDifference(work, refs, at)
	switch {
	case err != nil:
		return err
	case at == sortedBytes: // all rows are the same
		return Fetch(work, refs, func(batch []byte) error { return yieldMarks(batch, yield) })
	}
	file := AsideName("marks", fmt.Sprintf("%s-%d", name, at))
	parts, err := distribute(work, file, refs, 256, func(m Packed) int { return int(m[at]) })
	if err != nil {
		return fmt.Errorf("divide marks: %w", err)
	}
	for _, part := range parts {
		if err := sorted(work, name, part, limit, at+1, yield); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(work, file))
}

// firstDifference returns the index of the first sorted byte, from an index on, in which not all marks are the same.
func firstDifference(work string, refs []Reference, from int) (int, error) {
	var first []byte
	at := sortedBytes
	err := FetchMarks(work, refs, func(m Packed) {
		if first == nil {
			first = bytes.Clone(m[:sortedBytes])
		}
		for i := from; i < at; i++ {
			if m[i] != first[i] {
				at = i
			}
		}
	})
	return at, err
}

// yieldMarks calls yield with the marks in packed, sorted.
func yieldMarks(packed []byte, yield func([]Mark) error) error {
	var list []Mark
	err := EachMark(packed, func(m Packed) { list = append(list, m.Mark()) })
	slices.SortFunc(list, func(a, b Mark) int {
		return cmp.Or(bytes.Compare(a.Key[:], b.Key[:]), bytes.Compare(a.Tie[:], b.Tie[:]))
	})
	return errors.Join(err, yield(list))
}

// FetchMarks calls yield for each mark that the references refer to.
func FetchMarks(work string, refs []Reference, yield func(Packed)) error {
	return Fetch(work, refs, func(batch []byte) error { return EachMark(batch, yield) })
}

// Fetch calls yield with the data of each reference in turn.
func Fetch(work string, refs []Reference, yield func([]byte) error) error {
	for _, ref := range refs {
		data := make([]byte, ref.size())
		path := filepath.Join(work, string(ref[referenceHead:]))
		err := readAt(path, data, binary.BigEndian.Uint64(ref))
		if err == nil && checksum(data, nil) != binary.BigEndian.Uint32(ref[16:]) {
			err = errDamaged
		}
		if err != nil {
			return fmt.Errorf("read marks in %s: %w", path, err)
		}
		if err := yield(data); err != nil {
			return err
		}
	}
	return nil
}

func readAt(path string, data []byte, offset uint64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(data, int64(offset))
	return err
}

// AsideName returns the name of the file for a key's data, in a folder of the work folder.
func AsideName(folder, key string) string { return folder + "/" + strings.ReplaceAll(key, "/", "-") }
