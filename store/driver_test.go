package store_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

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
