package store

import (
	"context"
	"io"
	"sync"

	"gocloud.dev/blob/memblob"

	"github.com/sluiceml/sluice/internal/objectstore"
)

var (
	memMu sync.Mutex
	// memDrivers holds the stores in this process's memory by name, so that opening an address twice gives the same store.
	memDrivers = map[string]*bucketDriver{}
)

// openMem opens a store in this process's memory: for tests, and for planning where there is no store yet.
func openMem(name string) Driver {
	memMu.Lock()
	defer memMu.Unlock()
	if memDrivers[name] == nil {
		memDrivers[name] = &bucketDriver{
			bucket: memblob.OpenBucket(&memblob.Options{NoMD5: true}), at: objectstore.Address{Scheme: "mem", Name: name},
		}
	}
	return memDrivers[name]
}

// ctxReader returns an error once its context has ended.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
