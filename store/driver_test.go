package store_test

import (
	"testing"

	"github.com/sluiceml/sluice/internal/s3test"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/storetest"
)

func TestDrivers(t *testing.T) {
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Driver { return open(t, address(t)).Driver() })
		})
	}
}

// addresses gives the address of a new store, by driver.
var addresses = map[string]func(t *testing.T) string{
	"file": func(t *testing.T) string { return "file://" + t.TempDir() },
	"mem":  func(t *testing.T) string { return "mem://" + t.Name() },
	"s3":   func(t *testing.T) string { return s3test.Start(t, "acme", s3test.Options{}).At("deep/er") },
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
