package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// failing is a store that carries out some writes, and none after: the process was killed, the disk is full, or the store is away.
type failing struct {
	store.Driver
	left *atomic.Int64
}

var errAway = errors.New("the store is away")

func (f failing) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if f.left.Add(-1) >= 0 {
		return f.Driver.Write(ctx, key, r, opts)
	}
	return errAway
}

// commitOn commits a step of generation 1 as the agents of some nodes do, each the part that it has, through a store of its own.
func commitOn(ctx context.Context, stores []*store.Store, dir string, step int64) error {
	k, nodes := key(1), len(stores)
	m := checkpoint.Manifest{Generation: 1, Step: step, Nodes: nodes, Layout: "sharded", CommittedAt: time.Unix(step, 0).UTC()}
	for node, s := range stores {
		own := filepath.Join(dir, fmt.Sprint(step, "-", node))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"model", "optimizer"} {
			content := fmt.Sprintf("%s of node %d after step %d", name, node, step)
			if err := os.WriteFile(filepath.Join(own, fmt.Sprintf("%s-%d", name, node)), []byte(content), 0o600); err != nil {
				return err
			}
		}
		part := checkpoint.Part(s, k, step)
		ref, err := part.PutTree(ctx, artifact.Checkpoint, own, nil, nil)
		if err != nil {
			return err
		}
		metrics := ""
		if node == 0 {
			if metrics, _, err = part.PutBlob(ctx, strings.NewReader(fmt.Sprintf("metrics to %d", step))); err != nil {
				return err
			}
		}
		if nodes == 1 {
			m.Checkpoint, m.Metrics = ref, metrics
			return checkpoint.Commit(ctx, s, k, m)
		}
		if err := checkpoint.CommitShard(ctx, s, k, step, checkpoint.Shard{Node: node, Ranks: 1, Files: ref, Metrics: metrics}); err != nil {
			return err
		}
		if have, err := checkpoint.Shards(ctx, s, k, step); err != nil {
			return err
		} else if len(have) == nodes {
			return checkpoint.Join(ctx, s, k, m)
		}
	}
	return nil
}

// tortured is a store in a folder, in which step 10 of generation 1 has been committed.
func tortured(t *testing.T, nodes int) (*bench, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, f: t, store: s, dir: t.TempDir()}
	b.seal(1)
	if err := commitOn(t.Context(), slices.Repeat([]*store.Store{s}, nodes), b.dir, 10); err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// wantWhole checks that generation 2 resumes from a step, with every file as it was written.
func (b *bench) wantWhole(nodes int, step int64) {
	b.t.Helper()
	seal := b.seal(2)
	b.wantSeal(seal, 1, step)
	dir := filepath.Join(b.t.TempDir(), "resume")
	if err := seal.Files(b.store, key(2)).Fetch(b.t.Context(), seal.Resume.Checkpoint, dir); err != nil {
		b.t.Fatal(err)
	}
	for node := range nodes {
		for _, name := range []string{"model", "optimizer"} {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s-%d", name, node)))
			if want := fmt.Sprintf("%s of node %d after step %d", name, node, step); err != nil || string(got) != want {
				b.t.Errorf("%s of node %d is %q, %v, want %q", name, node, got, err, want)
			}
		}
	}
}

// TestCommitThatEndsAnywhere: whichever write of a commit is the last that is carried out, by one node of a gang or by all, the training
// resumes from the commit before, or from this one if that is whole; and so it does when the rest of the commit is done again.
func TestCommitThatEndsAnywhere(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		for _, again := range []bool{false, true} {
			for writes := int64(0); ; writes++ {
				b, _ := tortured(t, nodes)
				left := &atomic.Int64{}
				left.Store(writes)
				broken := store.New(failing{b.store.Driver(), left}, b.store.URL())
				err := commitOn(t.Context(), slices.Repeat([]*store.Store{broken}, nodes), b.dir, 20)
				if err != nil && !errors.Is(err, errAway) {
					t.Fatal(err)
				}
				want := int64(10)
				if again {
					if err := commitOn(t.Context(), slices.Repeat([]*store.Store{b.store}, nodes), b.dir, 20); err != nil {
						t.Fatalf("%d nodes, again after %d writes: %v", nodes, writes, err)
					}
				}
				if err == nil || again {
					want = 20
				}
				b.wantWhole(nodes, want)
				if err == nil {
					if writes < 4 {
						t.Fatalf("a commit of %d nodes took %d writes", nodes, writes)
					}
					break
				}
			}
		}
	}
}

// TestCommitIsDamagedAnywhere: whichever object of a commit is cut off, has a bit turned over, or is lost, a training
// never resumes from other than what was written: what is missing makes the seal name the commit before, and what has changed fails the
// fetch, after which the seal names that, too.
func TestCommitIsDamagedAnywhere(t *testing.T) {
	for name, damage := range map[string]func(path string, raw []byte) error{
		"truncated": func(path string, raw []byte) error { return os.WriteFile(path, raw[:len(raw)/2], 0o600) },
		"a bit":     func(path string, raw []byte) error { raw[len(raw)/2] ^= 1; return os.WriteFile(path, raw, 0o600) },
		"lost":      func(path string, _ []byte) error { return os.Remove(path) },
	} {
		for _, nodes := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " ", nodes), func(t *testing.T) {
				for i := 0; ; i++ {
					b, dir := tortured(t, nodes)
					if err := commitOn(t.Context(), slices.Repeat([]*store.Store{b.store}, nodes), b.dir, 20); err != nil {
						t.Fatal(err)
					}
					objects := b.objects(dir, "step-20")
					if i == len(objects) {
						break
					}
					raw, err := os.ReadFile(objects[i])
					if err == nil {
						err = errors.Join(os.Chmod(objects[i], 0o600), damage(objects[i], raw))
					}
					if err != nil {
						t.Fatal(err)
					}
					b.wantNoOther(t, nodes, objects[i])
				}
			})
		}
	}
}

// objects lists the files of a store in a folder whose path has a word in it.
func (b *bench) objects(dir, word string) []string {
	b.t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, word) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		b.t.Fatalf("the store has %v, %v", found, err)
	}
	return found
}

// wantNoOther checks that generation 2, or the one after it has found the checkpoint unusable, resumes from what was written.
func (b *bench) wantNoOther(t *testing.T, nodes int, object string) {
	t.Helper()
	seal, unusable := b.seal(2), []artifact.Ref(nil)
	fetched := seal.Files(b.store, key(2)).Fetch(t.Context(), seal.Resume.Checkpoint, filepath.Join(t.TempDir(), "resume"))
	switch {
	case seal.Resume.Step == 20 && fetched != nil:
		unusable = append(unusable, seal.Resume.Checkpoint)
	case fetched != nil:
		t.Errorf("%s: %v", object, fetched)
	}
	seal = b.seal(3, unusable...)
	dir := filepath.Join(t.TempDir(), "resume")
	if err := seal.Files(b.store, key(3)).Fetch(t.Context(), seal.Resume.Checkpoint, dir); err != nil {
		t.Errorf("%s: generation 3: %v", object, err)
	}
	for node := range nodes {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("model-%d", node)))
		if want := fmt.Sprintf("model of node %d after step %d", node, seal.Resume.Step); err != nil || string(got) != want {
			t.Errorf("%s: resumes with %q, %v, want %q", object, got, err, want)
		}
	}
}

// commitVariable makes this test's executable a process that commits until it is killed.
const commitVariable = "TEST_COMMIT_TO"

// TestCommittingProcessIsKilled: a process that commits is killed with SIGKILL at whatever point it is; what remains in the store is whole.
func TestCommittingProcessIsKilled(t *testing.T) {
	if to := os.Getenv(commitVariable); to != "" {
		commitForEver(t, to)
	}
	for _, nodes := range []int{1, 2} {
		for range 3 {
			b, dir := tortured(t, nodes)
			cmd := exec.Command(os.Args[0], "-test.run=^TestCommittingProcessIsKilled$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", commitVariable, nodes, dir),
				"TMPDIR="+t.TempDir()) // what it leaves when it is killed is removed here
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			tick := time.NewTicker(20 * time.Millisecond)
			for limit := time.Now().Add(time.Minute); ; <-tick.C {
				if steps, err := checkpoint.Steps(t.Context(), b.store, key(1)); err != nil || time.Now().After(limit) {
					t.Fatalf("the process commits nothing: %v, %v", steps, err)
				} else if len(steps) > 2 {
					break
				}
			}
			tick.Stop()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			steps, err := checkpoint.Steps(t.Context(), b.store, key(1))
			if err != nil {
				t.Fatal(err)
			}
			b.wantWhole(nodes, steps[len(steps)-1])
		}
	}
}

func commitForEver(t *testing.T, to string) {
	var nodes int
	var dir string
	if _, err := fmt.Sscan(to, &nodes, &dir); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	for step := int64(20); ; step += 10 {
		if err := commitOn(t.Context(), slices.Repeat([]*store.Store{s}, nodes), t.TempDir(), step); err != nil {
			t.Fatal(err)
		}
	}
}
