package script

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"
	"time"
)

const (
	// timesSuffix is what the file is called after that says when a log was written.
	timesSuffix = ".times"
	// timesEvery is how exact it is.
	timesEvery = time.Second
	// timesEntry is the size of an entry: how long the log was, and the milliseconds since 1970, both with the low byte first.
	timesEntry = 16
)

// timesWriter notes when a log was written. One that is nil notes nothing.
type timesWriter struct {
	log, to *os.File
	last    time.Time
}

// noteTimes makes the file for a log's times. A log without is better than no log.
func noteTimes(log *os.File) *timesWriter {
	to, err := os.OpenFile(log.Name()+timesSuffix, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil
	}
	return &timesWriter{log: log, to: to}
}

// note says that what is written next is written now.
func (t *timesWriter) note() {
	now := time.Now()
	if t == nil || now.Sub(t.last) < timesEvery {
		return
	}
	info, err := t.log.Stat()
	if err != nil {
		return
	}
	t.last = now
	entry := binary.LittleEndian.AppendUint64(make([]byte, 0, timesEntry), uint64(info.Size()))
	_, _ = t.to.Write(binary.LittleEndian.AppendUint64(entry, uint64(now.UnixMilli()))) // as if nothing had been noted
}

func (t *timesWriter) close() error {
	if t == nil {
		return nil
	}
	return t.to.Close()
}

// Times say when a log was written.
type Times []byte

// ReadTimes reads when a log was written; nothing where that was not noted.
func ReadTimes(log string) (Times, error) {
	f, err := os.Open(log + timesSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// At is when what is at an offset of the log was written, to the second; zero when that is not known.
func (t Times) At(offset int64) time.Time {
	field := func(i, place int) int64 { return int64(binary.LittleEndian.Uint64(t[i*timesEntry+place:])) }
	after := sort.Search(len(t)/timesEntry, func(i int) bool { return field(i, 0) > offset })
	if after == 0 {
		return time.Time{}
	}
	return time.UnixMilli(field(after-1, 8))
}
