package pipelines

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pack is data that is grouped by a key.
type pack struct {
	key  string
	data []byte
}

// putAside writes the data of packs to a file of the work folder and returns in its place where it lies there: 8 bytes each for offset
// and length, big endian, and the file's name. That is all that Beam groups, since prism holds what it groups in memory, several times.
func putAside(work, name string, packs []pack) ([]pack, error) {
	f, err := os.Create(filepath.Join(work, name))
	if err != nil {
		return nil, fmt.Errorf("put marks aside: %w", err)
	}
	out := bufio.NewWriterSize(f, 64<<10)
	refs := make([]pack, len(packs))
	at := uint64(0)
	for i, p := range packs {
		_, _ = out.Write(p.data) // an error stays with the writer
		ref := binary.BigEndian.AppendUint64(nil, at)
		ref = binary.BigEndian.AppendUint64(ref, uint64(len(p.data)))
		refs[i] = pack{p.key, append(ref, name...)}
		at += uint64(len(p.data))
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		return nil, fmt.Errorf("put marks aside: %w", err)
	}
	return refs, nil
}

// fetch calls yield with the data of each pack of a group.
func fetch(work string, refs func(*[]byte) bool, yield func([]byte) error) error {
	var ref []byte
	for refs(&ref) {
		if len(ref) < 16 {
			return errors.New("a reference to marks is cut off")
		}
		data := make([]byte, binary.BigEndian.Uint64(ref[8:]))
		if err := readAt(filepath.Join(work, string(ref[16:])), data, binary.BigEndian.Uint64(ref)); err != nil {
			return fmt.Errorf("read marks: %w", err)
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

// asideName names the file for what is put aside for a key, in a folder of the work folder.
func asideName(folder, key string) string { return folder + "/" + strings.ReplaceAll(key, "/", "-") }
