package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors a driver returns, wrapped with the key and the cause.
var (
	// ErrNotFound: no object has that key.
	ErrNotFound = errors.New("not found")
	// ErrExists: WriteOptions.IfAbsent was set and the key is taken.
	ErrExists = errors.New("already exists")
	// ErrFull: the medium has no room. Nothing was written.
	ErrFull = errors.New("no space left")
	// ErrReadOnly: the medium cannot be written to.
	ErrReadOnly = errors.New("not writable")
	// ErrUnavailable: the medium cannot be reached, or cannot answer now. Trying again may help.
	ErrUnavailable = errors.New("cannot be reached")
	// ErrRefused: the credentials are invalid or lack permission, or the bucket does not exist. Trying again does not help.
	ErrRefused = errors.New("refused")
	// ErrCorrupt: a blob or an artifact does not match its digest, or a record is not valid JSON. Returned by the Store, which verifies what
	// it reads.
	ErrCorrupt = errors.New("is damaged")
	// ErrKey: the key violates the rules documented at Driver.
	ErrKey = errors.New("bad key")
)

// Driver is a flat object store. Keys are slash-separated, clean, relative paths of at most 512 bytes from [A-Za-z0-9._=@+-/], with at most
// 200 bytes between two slashes. No key may be a folder of another, as "a" is of "a/b", because a file system cannot hold both. Drivers
// that could hold both need not check this.
//
// An object appears whole or not at all, even if the process or the machine dies during Write, and it is durable when Write returns. Reads
// see the newest completed Write. All methods are safe for concurrent use by many processes.
type Driver interface {
	// Read opens an object. ErrNotFound if there is none.
	Read(ctx context.Context, key string) (io.ReadCloser, error)
	// Write stores the content of r, replacing an earlier object. With IfAbsent it fails with ErrExists instead; of many concurrent IfAbsent
	// writers exactly one succeeds.
	Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error
	// Stat returns an object's size and time without reading it.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose key starts with prefix, in byte order of their keys.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Sync makes objects durable that were written with Unsynced. It ignores missing objects.
	Sync(ctx context.Context, keys []string) error
	// Delete removes an object. Deleting a missing object is not an error.
	Delete(ctx context.Context, key string) error
}

// WriteOptions qualifies a Write.
type WriteOptions struct {
	// IfAbsent makes the write create-if-absent.
	IfAbsent bool
	// Unsynced does not wait for the disk: until Sync, the object may be missing or empty after the machine has crashed. Use it for data that
	// is dispensable, such as an entry of a cache, or can be made again.
	Unsynced bool
	// LinkAs is a second key for the object. It is written first, as if Unsynced, and replaces an existing object. On a disk this costs half
	// as much as two writes.
	LinkAs string
}

// Info describes one object.
type Info struct {
	Key   string
	Bytes int64
	// Modified is when it was last written.
	Modified time.Time
}
