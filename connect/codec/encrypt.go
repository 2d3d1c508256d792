package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

const (
	encodingEncrypted = "binary/encrypted"
	metadataKeyID     = "encryption-key-id"
)

// errPlain is the error of a payload that anybody who can write to Temporal may have put there.
var errPlain = errors.New("the payload is not encrypted, and this process has keys: to continue what was started without keys, add the line " +
	acceptPlain + " to the key file until it has ended")

var errTampered = errors.New("the payload was changed after it was written, or the key with that ID is a different one")

// encryption is a payload codec that seals the whole payload, including its metadata, with AES-256-GCM and a random nonce. The encoding and
// the ID of the key stay readable, but are authenticated.
type encryption struct{ ring *Ring }

// Encode implements converter.PayloadCodec.
func (e encryption) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if e.ring == nil {
		return payloads, nil
	}
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		plain, err := marshal(p)
		if err != nil {
			return nil, err
		}
		sealed := &commonpb.Payload{Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(encodingEncrypted),
			metadataKeyID:              []byte(e.ring.active),
		}}
		sealed.Data = e.ring.keys[e.ring.active].Seal(nil, nil, plain, associated(sealed.Metadata))
		return sealed, nil
	})
}

// Decode implements converter.PayloadCodec.
func (e encryption) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		if encodingOf(p) != encodingEncrypted {
			if e.ring != nil && !e.ring.acceptsPlain {
				return nil, errPlain
			}
			return p, nil
		}
		id := string(p.GetMetadata()[metadataKeyID])
		key, err := e.ring.find(id)
		if err != nil {
			return nil, err
		}
		plain, err := key.Open(nil, nil, p.GetData(), associated(p.GetMetadata()))
		if err != nil {
			return nil, fmt.Errorf("decrypt a payload with key %q: %w", id, errTampered)
		}
		return unmarshal(plain)
	})
}

// associated encodes metadata unambiguously: sorted, and each part with its length before it.
func associated(metadata map[string][]byte) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		out = append(binary.AppendUvarint(out, uint64(len(name))), name...)
		out = append(binary.AppendUvarint(out, uint64(len(metadata[name]))), metadata[name]...)
	}
	return out
}
