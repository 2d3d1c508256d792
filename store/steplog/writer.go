package steplog

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
)

const (
	// headBytes of what a node prints are stored as they come, and of the rest the end.
	headBytes = 64 << 20
	// pendingBytes bounds what waits to be stored, and with it what is kept of the end. Beyond it the oldest is dropped.
	pendingBytes = 4 << 20
	// chunkBytes of text make a chunk full, after which another begins. An entry is no longer than that.
	chunkBytes = 64 << 10
	// storeEvery is how often what is new is stored, and what a rank prints within mergeTime is one entry.
	storeEvery = 2 * time.Second
	mergeTime  = time.Second
	// putTimeout bounds one attempt to store a chunk, and closeTimeout all those of Close, with closePause between two.
	putTimeout   = 30 * time.Second
	closeTimeout = 10 * time.Second
	closePause   = 500 * time.Millisecond
	// roomTimeout bounds how long a program waits for a store that is slower than it prints.
	roomTimeout = time.Second
)

// Writer stores what is printed on one node.
type Writer struct {
	store  *store.Store
	prefix string // of the keys of its chunks
	failed func(error)
	cancel context.CancelFunc // ends attempts to store
	full   chan struct{}      // more waits than should
	quit   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	pending []printed
	bytes   int            // of the texts of pending
	omitted int64          // bytes that were dropped before pending
	begun   map[int][]byte // the first bytes of a character of which the rest is still to come, by rank
	room    chan struct{}  // closed when pending is next moved to chunk
	behind  bool           // no program waits for room: the store is away or slow, or the head is full

	// The rest belongs to the goroutine that stores.
	chunk   chunk
	size    int  // bytes of the texts of chunk
	dirty   bool // the store does not have all of chunk
	chunks  int  // how many are full
	left    int  // of the head
	failing bool // the last attempt failed
}

// printed is an entry that may still grow.
type printed struct {
	at   time.Time
	rank int
	text []byte
}

// NewWriter begins the log of one of some nodes with some ranks each. failed is called when the store begins to fail; it is tried again. Close
// ends the writer.
func NewWriter(s *store.Store, of Source, nodes, ranks int, failed func(error)) *Writer {
	return newWriter(s, of, chunk{Nodes: nodes, Ranks: ranks}, headBytes, failed)
}

func newWriter(s *store.Store, of Source, empty chunk, head int, failed func(error)) *Writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{
		store: s, prefix: fmt.Sprintf("%s%013d-", of.prefix(), time.Now().UnixMilli()), failed: failed, cancel: cancel,
		full: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		begun: map[int][]byte{}, room: make(chan struct{}), chunk: empty, left: head,
	}
	go w.run(ctx)
	return w
}

// Write takes what a rank has printed. It never waits for the store, and may be called from several goroutines until Close is.
func (w *Writer) Write(rank int, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text = append(w.begun[rank], text...)
	whole := wholeRunes(text)
	w.begun[rank] = text[whole:]
	w.add(time.Now(), rank, text[:whole])
}

// Program is the writer for the only program of a node. It waits for the store for a moment where the program prints faster than that, so
// that nothing of the head is lost.
func (w *Writer) Program() io.Writer { return program{w} }

type program struct{ *Writer }

func (p program) Write(text []byte) (int, error) {
	p.Writer.Write(0, text)
	p.mu.Lock()
	room, wait := p.room, p.bytes > pendingBytes/2 && !p.behind
	p.mu.Unlock()
	if wait {
		select {
		case <-room:
		case <-time.After(roomTimeout):
			p.setBehind(true)
		}
	}
	return len(text), nil
}

func (w *Writer) setBehind(behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = behind
}

// add appends to what is pending, and drops the oldest of it where that becomes too much.
func (w *Writer) add(now time.Time, rank int, text []byte) {
	before := w.bytes
	for len(text) > 0 {
		n := min(len(text), chunkBytes)
		if n < len(text) {
			n = wholeRunes(text[:n])
		}
		if p := w.growing(now, rank, n); p != nil {
			p.text = append(p.text, text[:n]...)
		} else {
			w.pending = append(w.pending, printed{at: now, rank: rank, text: append([]byte(nil), text[:n]...)})
		}
		w.bytes += n
		text = text[n:]
	}
	if before <= pendingBytes/2 && w.bytes > pendingBytes/2 {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
	for w.bytes > pendingBytes {
		n := len(w.pending[0].text)
		w.omitted, w.bytes, w.pending = w.omitted+int64(n), w.bytes-n, w.pending[1:]
	}
}

// growing is the entry that some more bytes of a rank belong to; nil when that is a new one.
func (w *Writer) growing(now time.Time, rank, more int) *printed {
	for i := len(w.pending) - 1; i >= 0 && now.Sub(w.pending[i].at) < mergeTime; i-- {
		if p := &w.pending[i]; p.rank == rank {
			if len(p.text)+more > chunkBytes {
				return nil
			}
			return p
		}
	}
	return nil
}

// wholeRunes is the length of b without a last character of which bytes are missing.
func wholeRunes(b []byte) int {
	for n := len(b) - 1; n >= max(0, len(b)-utf8.UTFMax); n-- {
		if utf8.RuneStart(b[n]) {
			if utf8.FullRune(b[n:]) {
				break
			}
			return n
		}
	}
	return len(b)
}

// Close stores what is left. It gives up after 10 seconds if the store cannot be reached.
func (w *Writer) Close() {
	defer time.AfterFunc(closeTimeout, w.cancel).Stop()
	close(w.quit)
	<-w.done
	w.cancel()
}

func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flush(ctx, false)
		case <-w.full:
			w.flush(ctx, false)
		case <-w.quit:
			w.finish(ctx)
			return
		}
	}
}

// finish stores all that is left, until ctx ends.
func (w *Writer) finish(ctx context.Context) {
	for rank, begun := range w.begun {
		w.add(time.Now(), rank, begun)
	}
	for {
		pause := time.Duration(0)
		if w.flush(ctx, true) {
			if len(w.pending) == 0 {
				return
			}
		} else {
			pause = closePause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// flush stores what is pending, or else what it failed to store before. It reports whether the store answered.
func (w *Writer) flush(ctx context.Context, end bool) bool {
	if !w.dirty {
		w.take(end)
	}
	if !w.dirty {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err := w.store.PutJSON(ctx, fmt.Sprintf("%s%06d.json", w.prefix, w.chunks), w.chunk, store.WriteOptions{Unsynced: true})
	if err != nil {
		if !w.failing {
			w.failed(err)
		}
		w.failing = true
		w.setBehind(true)
		return false
	}
	w.dirty, w.failing = false, false
	w.setBehind(w.left <= 0)
	if w.size >= chunkBytes {
		w.chunk.Entries, w.size, w.chunks = nil, 0, w.chunks+1
	}
	return true
}

// take moves what is pending to the chunk. What comes after the head waits for the end.
func (w *Writer) take(end bool) {
	if w.left <= 0 && !end {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.omitted > 0 {
		w.put(printed{w.pending[0].at, noteRank, fmt.Appendf(nil, "[sluice: %s were omitted]\n", human.Bytes(w.omitted))})
	}
	for _, p := range w.pending {
		w.put(p)
	}
	w.left -= w.bytes
	w.pending, w.bytes, w.omitted = nil, 0, 0
	close(w.room)
	w.room = make(chan struct{})
	if w.left <= 0 && !end {
		w.put(printed{time.Now(), noteRank, fmt.Appendf(nil,
			"[sluice: the log has reached its maximum size; only the last %s of the rest are kept, and added at the end]\n",
			human.Bytes(pendingBytes))})
	}
}

func (w *Writer) put(p printed) {
	w.chunk.Entries = append(w.chunk.Entries, entry{At: p.at.UTC(), Rank: p.rank, Text: string(p.text)})
	w.size += len(p.text)
	w.dirty = true
}
