package steplog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

var all = Selection{Generation: Any, Node: Any, Rank: Any}

func from(generation, node int) Source {
	return Source{Run: "r", Step: "fit", Generation: generation, Node: node}
}

func openMem(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *store.Store, generation, node, nodes, ranks int) *Writer {
	return NewWriter(s, from(generation, node), nodes, ranks, func(err error) { t.Errorf("generation %d, node %d: %v", generation, node, err) })
}

// read reads all that is new, as the command prints it.
func read(t *testing.T, r *Reader, ended bool) string {
	t.Helper()
	logs, err := List(t.Context(), r.store, "r", "fit")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var generations []int
	if len(logs) > 0 {
		generations = r.Add(logs[0])
	}
	for _, g := range generations {
		err := r.Read(t.Context(), g, ended, func(l Line) error {
			if time.Since(l.At) > time.Minute {
				t.Errorf("%+v is old", l)
			}
			fmt.Fprintf(&b, "g%d n%d r%d %s", l.Generation, l.Node, l.Rank, l.Text)
			if l.Shared {
				b.WriteString(" (shared)")
			}
			b.WriteByte('\n')
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// Lines are told apart by generation, node and rank, in whatever pieces they come.
func TestSelections(t *testing.T) {
	s := openMem(t)
	one := write(t, s, 1, 0, 1, 1)
	one.Write(0, []byte("alone\n"))
	one.Close()
	for node := range 2 {
		w := write(t, s, 2, node, 2, 2)
		w.Write(NoRank, []byte("launching\n"))
		for _, part := range []string{"fir", "st\nsec\xc3", "\xb6nd", "\n", "\xc3"} {
			for local := range 2 {
				w.Write(2*node+local, []byte(part))
			}
		}
		w.Close()
	}
	other := NewWriter(s, Source{Run: "r", Step: "fit.1", Generation: 1}, 1, 1, func(err error) { t.Error(err) })
	other.Write(0, []byte("other\n"))
	other.Close()
	for _, test := range []struct {
		name      string
		selection Selection
		want      string
		missing   string
	}{
		{name: "all", selection: all, want: `g1 n0 r0 alone
g2 n0 r-1 launching (shared)
g2 n0 r0 first (shared)
g2 n0 r0 secönd (shared)
g2 n0 r1 first (shared)
g2 n0 r1 secönd (shared)
g2 n1 r-1 launching (shared)
g2 n1 r2 first (shared)
g2 n1 r2 secönd (shared)
g2 n1 r3 first (shared)
g2 n1 r3 secönd (shared)
g2 n0 r0 � (shared)
g2 n0 r1 � (shared)
g2 n1 r2 � (shared)
g2 n1 r3 � (shared)
`},
		{name: "a generation", selection: Selection{1, Any, Any}, want: "g1 n0 r0 alone\n"},
		{name: "a node", selection: Selection{1, 0, Any}, want: "g1 n0 r0 alone\n"},
		{name: "a rank", selection: Selection{Any, Any, 3}, want: "g2 n1 r3 first\ng2 n1 r3 secönd\ng2 n1 r3 �\n"},
		{name: "a rank of another node", selection: Selection{2, 0, 3}},
		{name: "no such generation", selection: Selection{3, Any, Any}, missing: "generation 3\nhelp: there is output of generations 1, 2"},
		{name: "no such node", selection: Selection{Any, 2, Any}, missing: "node 2\nhelp: there are nodes 0 to 1"},
		{name: "no other node", selection: Selection{1, 1, Any}, missing: "node 1\nhelp: there is only node 0"},
		{name: "no such rank", selection: Selection{Any, Any, 4}, missing: "rank 4\nhelp: there are ranks 0 to 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(s, test.selection)
			if diff := cmp.Diff(test.want, read(t, r, true)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.missing, r.Missing()); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
	for id, want := range map[string][]string{"fit": {"fit", "fit.1"}, "fit.1": {"fit.1"}, "fi": nil, "": {"fit", "fit.1"}} {
		logs, err := List(t.Context(), s, "r", id)
		var steps []string
		for _, log := range logs {
			steps = append(steps, log.Step)
		}
		if diff := cmp.Diff(want, steps); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", id, err, diff)
		}
	}
}

// What is printed can be read while the ranks run, each line once, and a rank that prints nothing makes no writes.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		s := openOn(t, c)
		w := write(t, s, 1, 0, 1, 1)
		r := NewReader(s, all)
		for i := range 3 {
			w.Write(0, fmt.Appendf(nil, "line %d\nbegun", i))
			want := "g1 n0 r0 line 0\n"
			if i > 0 {
				want = fmt.Sprintf("g1 n0 r0 begunline %d\n", i)
			}
			await(t, func() bool {
				got := read(t, r, false)
				if got != "" && got != want {
					t.Fatalf("read %q, want %q", got, want)
				}
				return got == want
			})
		}
		writes := c.writes.Load()
		if writes != 3 {
			t.Errorf("%d writes, want one for each of 3 lines", writes)
		}
		w.Close()
		if got := read(t, r, true); got != "g1 n0 r0 begun\n" {
			t.Errorf("the rest is %q", got)
		}
		if n := c.writes.Load(); n != writes {
			t.Errorf("%d writes, want no more than %d when nothing was printed", n, writes)
		}
	})
}

// What is printed fast becomes few chunks that are not replaced any more, and all of it can be read.
func TestChunks(t *testing.T) {
	c := &counted{}
	s := openOn(t, c)
	w := write(t, s, 1, 0, 1, 1)
	line := strings.Repeat("x", 99) + "\n"
	const lines = 200_000 // 20 MB
	for range lines / 100 {
		if n, err := io.WriteString(w.Program(), strings.Repeat(line, 100)); n != 100*len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.Close()
	if got := strings.Count(read(t, NewReader(s, all), true), "\n"); got != lines {
		t.Errorf("%d lines, want %d", got, lines)
	}
	if n := c.writes.Load(); n > 80 {
		t.Errorf("%d writes of 20 MB", n)
	}
}

// A program that prints much waits once for a store that does not answer, and then goes on; so does one whose log is full.
func TestProgramIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{answers: make(chan struct{})}
		w := newWriter(openOn(t, c), from(1, 0), chunk{Nodes: 1, Ranks: 1}, 3*pendingBytes, func(err error) { t.Error(err) })
		line := []byte(strings.Repeat("y", chunkBytes-1) + "\n")
		write := func(bytes int) time.Duration {
			began := time.Now()
			for range bytes / chunkBytes {
				w.Program().Write(line)
			}
			return time.Since(began)
		}
		if took := write(2 * pendingBytes); took != roomTimeout {
			t.Errorf("it waited for %v, want %v", took, roomTimeout)
		}
		close(c.answers)
		time.Sleep(2 * storeEvery)
		if took := write(2 * pendingBytes); took >= roomTimeout {
			t.Errorf("it waited for %v for a store that answers", took)
		}
		time.Sleep(2 * storeEvery)
		if took := write(10 * pendingBytes); took > 0 {
			t.Errorf("it waited for %v with a full log", took)
		}
		w.Close()
	})
}

// A store that is away holds nobody up. What was printed meanwhile is stored when it is back, of too much the end, with a word about the rest.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		s := openOn(t, c)
		var failures atomic.Int64
		w := NewWriter(s, from(1, 0), 1, 1, func(error) { failures.Add(1) })
		w.Write(0, []byte("before\n"))
		r := NewReader(s, all)
		await(t, func() bool { return read(t, r, false) == "g1 n0 r0 before\n" })
		c.away.Store(true)
		w.Write(0, []byte("taken\n"))
		await(t, func() bool { return c.refused.Load() > 1 })
		line := strings.Repeat("y", chunkBytes-1) + "\n"
		for range 2 * pendingBytes / chunkBytes {
			w.Write(0, []byte(line))
		}
		w.mu.Lock()
		if w.bytes > pendingBytes {
			t.Errorf("%d bytes wait, more than %d", w.bytes, pendingBytes)
		}
		w.mu.Unlock()
		if n := failures.Load(); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
		c.away.Store(false)
		w.Close()
		got := strings.Split(strings.TrimSuffix(read(t, r, true), "\n"), "\n")
		if len(got) < 3 || got[0] != "g1 n0 r0 taken" || got[1] != "g1 n0 r-1 [sluice: 4.2 MB were omitted]" {
			t.Fatalf("%d lines: %.200q", len(got), got)
		}
		if n := len(got) - 2; n != pendingBytes/chunkBytes {
			t.Errorf("%d lines of the end, want %d", n, pendingBytes/chunkBytes)
		}
	})
}

// A store that does not come back holds up the end for a moment only.
func TestStoreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		c.away.Store(true)
		w := NewWriter(openOn(t, c), from(1, 0), 1, 1, func(error) {})
		w.Write(0, []byte("lost\n"))
		began := time.Now()
		w.Close()
		if took := time.Since(began); took > closeTimeout+5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// Of what never ends the head is stored, and the end when it has ended after all.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openMem(t)
		const head = 1 << 20
		w := newWriter(s, from(1, 0), chunk{Nodes: 1, Ranks: 1}, head, func(err error) { t.Error(err) })
		line := func(i int) []byte { return fmt.Appendf(nil, "%08d%s\n", i, strings.Repeat("z", chunkBytes-9)) }
		const lines = (head + 3*pendingBytes) / chunkBytes
		for i := range head / chunkBytes {
			w.Write(0, line(i))
		}
		r := NewReader(s, all)
		got := ""
		await(t, func() bool { got += read(t, r, false); return strings.Contains(got, "maximum size") })
		for i := head / chunkBytes; i < lines; i++ {
			w.Write(0, line(i))
		}
		time.Sleep(10 * storeEvery)
		if more := read(t, r, false); more != "" {
			t.Errorf("%d bytes were stored after the maximum", len(more))
		}
		w.Close()
		got += read(t, r, true)
		texts := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if want := head/chunkBytes + 2 + pendingBytes/chunkBytes; len(texts) != want {
			t.Errorf("%d lines, want %d", len(texts), want)
		}
		if first, last := texts[0], texts[len(texts)-1]; !strings.HasPrefix(first, "g1 n0 r0 00000000z") || !strings.HasPrefix(last, fmt.Sprintf("g1 n0 r0 %08dz", lines-1)) {
			t.Errorf("it begins with %.30q and ends with %.30q", first, last)
		}
		if note := texts[head/chunkBytes+1]; note != "g1 n0 r-1 [sluice: 8.4 MB were omitted]" {
			t.Errorf("after the head it says %.80q", note)
		}
	})
}

func TestWholeRunes(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "ö": 2, "a\xc3": 1, "日本": 6, "日\xe6\x9c": 3, "日\xe6": 3, "\xf0\x9f\x98": 0, "😀": 4, "\x80\x80\x80\x80\x80": 5, "\xff": 1,
	} {
		if got := wholeRunes([]byte(text)); got != want {
			t.Errorf("wholeRunes(%q) = %d, want %d", text, got, want)
		}
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for tick := time.Tick(20 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-limit:
			t.Fatal("waited for too long")
		}
	}
}

// counted is a driver that counts writes, and may refuse them.
type counted struct {
	store.Driver
	writes, refused atomic.Int64
	away            atomic.Bool
	answers         chan struct{} // if not nil, writes wait until it is closed
}

func openOn(t *testing.T, c *counted) *store.Store {
	t.Helper()
	s := openMem(t)
	c.Driver = s.Driver()
	return store.New(c, s.URL())
}

func (c *counted) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if c.away.Load() {
		c.refused.Add(1)
		return errors.New("away")
	}
	if c.answers != nil {
		<-c.answers
	}
	c.writes.Add(1)
	return c.Driver.Write(ctx, key, r, opts)
}
