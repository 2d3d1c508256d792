// Package codec decides what Temporal gets to see of payloads: the inputs, results, errors and summaries of workflows and activities.
//
// A payload is compressed, then encrypted when there are keys, then, when it is large, moved to the store, so that history holds its
// digest alone. What the store gets is therefore encrypted as well. Compression and the move need no configuration and are on for
// everybody; encryption is on when a key file is named (ReadRing). Search attributes are never touched: Temporal must read them.
//
// A process without keys reads what was never encrypted, and says of the rest which key it lacks. So encryption can be turned on
// while runs are open; for the same reason a payload that is not encrypted is taken from Temporal as it is.
//
// The node agent imports this package: nothing in it may need the Temporal server or cgo.
package codec

import (
	"net/http"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/store"
)

const (
	// maxPayload bounds a payload, compressed or not. It is far above what Temporal takes, and keeps a forged one from filling the memory.
	maxPayload = 64 << 20

	// storeFrom is the size from which a payload goes to the store. Temporal warns at twice as much and refuses 16 times as much for all the
	// payloads of one message; with less, a write to the store, which waits for the disk or for a bucket, would cost more than the bytes do
	// in history.
	storeFrom = 128 << 10
)

// Codec turns payloads into what Temporal keeps, and back. It is safe for concurrent use.
type Codec struct {
	ring    *Ring // nil: nothing is encrypted
	codecs  []converter.PayloadCodec
	storage converter.ExternalStorage
}

// New makes a codec that encrypts with the ring's active key, or with nothing when ring is nil, and moves large payloads to s.
func New(ring *Ring, s *store.Store) *Codec {
	return &Codec{
		ring:   ring,
		codecs: []converter.PayloadCodec{encryption{ring}, compression{}}, // the SDK encodes from last to first
		storage: converter.ExternalStorage{
			Drivers:              []converter.StorageDriver{driver{s}},
			PayloadSizeThreshold: storeFrom,
		},
	}
}

// Open is New with the keys of a file; "" means no encryption.
func Open(keyFile string, s *store.Store) (*Codec, error) {
	if keyFile == "" {
		return New(nil, s), nil
	}
	ring, err := ReadRing(keyFile)
	if err != nil {
		return nil, err
	}
	return New(ring, s), nil
}

// Encrypts reports whether what this codec encodes is encrypted.
func (c *Codec) Encrypts() bool { return c.ring != nil }

// KeyFile is the absolute path of the file the keys came from, for processes that need them too; "" without encryption.
func (c *Codec) KeyFile() string {
	if c.ring == nil {
		return ""
	}
	return c.ring.path
}

// Configure makes a client, and the workers that use it, write and read payloads by this codec.
func (c *Codec) Configure(o *client.Options) {
	o.DataConverter = c.DataConverter()
	o.FailureConverter = c.FailureConverter()
	o.ExternalStorage = c.storage
}

// FailureConverter writes and reads errors, with their messages encrypted where payloads are.
func (c *Codec) FailureConverter() converter.FailureConverter {
	return failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: c.DataConverter(),
		// An error's message quotes what a program printed and what a gate compared.
		EncodeCommonAttributes: c.Encrypts(),
	})}
}

// DataConverter is Temporal's own, compressing and encrypting; it does not reach into the store.
func (c *Codec) DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c.codecs...)
}

// Handler speaks the protocol by which Temporal's UI and CLI have payloads decoded: POST of payloads to a path that ends in /decode or
// /encode, and of references to the store to /download. Who may ask is the caller's concern.
func (c *Codec) Handler() (http.Handler, error) {
	h, err := converter.NewPayloadHTTPHandler(converter.PayloadHTTPHandlerOptions{
		PreStorageCodecs: c.codecs,
		ExternalStorage:  c.storage,
	})
	if err != nil {
		return nil, err
	}
	return http.MaxBytesHandler(h, maxRequest), nil
}

// maxRequest bounds what the UI asks to have decoded at once.
const maxRequest = 32 << 20
