package store_test

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/store"
)

func TestDrivers(t *testing.T) {
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			conformance(t, func(t *testing.T) store.Driver { return open(t, address(t)).Driver() })
		})
	}
}

// TestRealBucket is the suite on a server that SLUICE_TEST_BUCKET names, such as s3://scratch?endpoint=http://127.0.0.1:7070, with the
// credentials of the environment. Each test has a folder of its own, which stays.
func TestRealBucket(t *testing.T) {
	address := os.Getenv("SLUICE_TEST_BUCKET")
	if address == "" {
		t.Skip("SLUICE_TEST_BUCKET names no bucket")
	}
	where, options, _ := strings.Cut(address, "?")
	conformance(t, func(t *testing.T) store.Driver {
		return open(t, where+"/"+rand.Text()+"?"+options).Driver()
	})
}

// addresses gives the address of a new store, by driver.
var addresses = map[string]func(t *testing.T) string{
	"file": func(t *testing.T) string { return "file://" + t.TempDir() },
	"mem":  func(t *testing.T) string { return "mem://" + t.TempDir() },
	"s3":   func(t *testing.T) string { return s3test.Start(t, "acme", s3test.Options{}).At("deep/er") },
	"gs": func(t *testing.T) string {
		newGoogle(t)
		return "gs://" + gBucket + "/deep"
	},
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A folder goes with the last object in it: each run has some, and whoever lists reads them all.
func TestEmptyFoldersGo(t *testing.T) {
	root := t.TempDir()
	d := open(t, "file://"+root).Driver()
	for _, key := range []string{"runs/a/run.json", "runs/a/steps/fit.json", "runs/b/run.json", "open/1/000001.json"} {
		put(t, d, key, key)
	}
	for _, key := range []string{"runs/a/run.json", "runs/a/steps/fit.json", "open/1/000001.json"} {
		if err := d.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{".", "runs", "runs/b", "tmp~"}, foldersIn(t, root)); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	put(t, d, "open/1/000001.json", "again")
	if got := get(t, d, "open/1/000001.json"); got != "again" {
		t.Errorf("read %q", got)
	}
}

// TestFoldersComeAndGo: two processes write and delete in folders that become empty all the time, and no write is lost or fails.
func TestFoldersComeAndGo(t *testing.T) {
	root := t.TempDir()
	var group errgroup.Group
	for p := range 2 {
		d := open(t, "file://"+root).Driver()
		for w := range 4 {
			group.Go(func() error {
				for n := range 32 {
					key := fmt.Sprintf("runs/%d/steps/%d-%d.json", n%2, p, w)
					opts := store.WriteOptions{IfAbsent: n%4 < 2, Unsynced: n%3 > 0, LinkAs: fmt.Sprintf("cache/%d/%d-%d.json", n%2, p, w)}
					if err := d.Write(t.Context(), key, strings.NewReader(key), opts); err != nil {
						return err
					}
					for _, key := range []string{key, opts.LinkAs} {
						if _, err := d.Stat(t.Context(), key); err != nil {
							return err
						}
						if err := d.Delete(t.Context(), key); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{".", "tmp~"}, foldersIn(t, root)); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp~")); err != nil || len(left) > 0 {
		t.Errorf("temporary files stay: %v, %v", left, err)
	}
}

func foldersIn(t *testing.T, root string) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			name, err = filepath.Rel(root, name)
			folders = append(folders, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
