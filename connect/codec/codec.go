// Package codec decides what Temporal can see of payloads: the inputs, results, errors and summaries of workflows and activities.
//
// A payload is compressed, then encrypted if there are keys, and then, if it is large, moved to the store, so that history only has its
// digest. So the store gets encrypted payloads, too. Compression and the move to the store are always on; encryption is on if a key file is
// named (ReadRing). Search attributes are never changed, because Temporal must read them.
//
// A process without keys can read payloads that are not encrypted; for others, the error names the missing key. A process with keys refuses
// payloads that are not encrypted, unless its key file has the line accept-plain, with which encryption can be turned on while runs are open.
//
// The node agent imports this package, so it must depend on neither the Temporal server nor cgo.
package codec

import (
	"net/http"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// maxPayload bounds a payload, compressed or not. It is far above the limit of Temporal, and keeps a forged payload from exhausting the
	// memory.
	maxPayload = 64 << 20

	// maxMessage bounds the message of an error, and its stack trace, in bytes: no store takes them.
	maxMessage = 16 << 10
)

// Codec turns payloads into what Temporal keeps, and back. It is safe for concurrent use.
type Codec struct {
	ring    *Ring // nil: nothing is encrypted
	codecs  []converter.PayloadCodec
	storage converter.ExternalStorage
}

// New returns a codec that encrypts with the ring's active key, or not at all if ring is nil, and moves large payloads to s.
func New(ring *Ring, s *store.Store) *Codec {
	return &Codec{
		ring:   ring,
		codecs: []converter.PayloadCodec{encryption{ring}, compression{}}, // the SDK encodes from last to first
		storage: converter.ExternalStorage{
			Drivers:              []converter.StorageDriver{driver{s}},
			PayloadSizeThreshold: record.PayloadLimit,
		},
	}
}

// Open is New with the keys in a file; "" means no encryption.
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

// Configure makes a client, and the workers that use it, write and read payloads with this codec.
func (c *Codec) Configure(o *client.Options) {
	o.DataConverter = c.DataConverter()
	o.FailureConverter = c.FailureConverter()
	o.ExternalStorage = c.storage
}

// FailureConverter writes and reads errors. Messages are encrypted if payloads are.
func (c *Codec) FailureConverter() converter.FailureConverter {
	return failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: c.DataConverter(),
		// The message of an error may quote what a program printed or what a gate compared.
		EncodeCommonAttributes: c.Encrypts(),
	})}
}

// DataConverter returns Temporal's converter with compression and encryption. It does not read payloads from the store.
func (c *Codec) DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c.codecs...)
}

// Handler serves the codec protocol of Temporal's UI and CLI: they POST payloads to a path that ends in /decode or /encode, and references
// to the store to /download. Access control is up to the caller.
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

// maxRequest bounds a request to decode payloads, in bytes.
const maxRequest = 32 << 20
