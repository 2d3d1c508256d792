package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

const (
	encodingZstd = "binary/zstd"

	// compressFrom is the size below which a payload is not compressed. That would save little, and the UI can show a payload that is not
	// compressed without a codec.
	compressFrom = 1 << 10
)

// Both are created on first use: most processes never see a payload that is worth compressing, and the windows take memory.
var (
	compressor = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // constant options
		}
		return e
	})
	decompressor = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPayload), zstd.WithDecoderConcurrency(0))
		if err != nil {
			panic(err) // constant options
		}
		return d
	})
)

// compression is a payload codec: zstd where it makes a payload smaller.
type compression struct{}

// Encode implements converter.PayloadCodec. If compression makes no payload smaller, it returns its argument.
func (compression) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		if len(p.GetData()) < compressFrom {
			return p, nil
		}
		plain, err := marshal(p)
		if err != nil {
			return nil, err
		}
		small := compressor().EncodeAll(plain, nil)
		if len(small) >= len(plain) {
			return p, nil
		}
		return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingZstd)}, Data: small}, nil
	})
}

// Decode implements converter.PayloadCodec.
func (compression) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		if encodingOf(p) != encodingZstd {
			return p, nil
		}
		plain, err := decompressor().DecodeAll(p.GetData(), nil)
		if err != nil {
			return nil, fmt.Errorf("decompress a payload of %d bytes: %w", len(p.GetData()), err)
		}
		return unmarshal(plain)
	})
}

// each applies change to every payload. It does not modify its argument, and returns it if nothing changes.
func each(
	payloads []*commonpb.Payload, change func(*commonpb.Payload) (*commonpb.Payload, error),
) ([]*commonpb.Payload, error) {
	out := payloads
	for i, p := range payloads {
		changed, err := change(p)
		if err != nil {
			return nil, err
		}
		if changed == p {
			continue
		}
		if &out[0] == &payloads[0] {
			out = append([]*commonpb.Payload(nil), payloads...)
		}
		out[i] = changed
	}
	return out, nil
}

func encodingOf(p *commonpb.Payload) string {
	return string(p.GetMetadata()[converter.MetadataEncoding])
}

// marshal is deterministic, so that the store keeps equal payloads once.
func marshal(p *commonpb.Payload) ([]byte, error) {
	if size := proto.Size(p); size > maxPayload {
		return nil, fmt.Errorf("the payload has %d bytes, more than the maximum of %d; pass a reference to an artifact instead", size, maxPayload)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

func unmarshal(data []byte) (*commonpb.Payload, error) {
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("decode a payload: %w", err)
	}
	return p, nil
}
