package codec

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/store"
)

// open makes a codec whose keys have the given ids, the first active, and whose store is its own. The key of an id is always the same.
func open(t testing.TB, ids ...string) *Codec {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(keyFile(t, ids...), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keyFile(t testing.TB, ids ...string) string {
	t.Helper()
	if len(ids) == 0 {
		return ""
	}
	var text strings.Builder
	for _, id := range ids {
		if id == acceptPlain {
			fmt.Fprintln(&text, id)
			continue
		}
		fmt.Fprintf(&text, "%s %s\n", id, keyOf(id))
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func encode(t testing.TB, c *Codec, value any) *commonpb.Payload {
	t.Helper()
	p, err := c.DataConverter().ToPayload(value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func decode(c *Codec, p *commonpb.Payload) (string, error) {
	var out string
	err := c.DataConverter().FromPayload(p, &out)
	return out, err
}

// TestRoundTrip: whatever goes in comes out, with keys and without, and with keys nothing of it can be seen.
func TestRoundTrip(t *testing.T) {
	for name, c := range map[string]*Codec{"plain": open(t), "encrypted": open(t, "a", "b")} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			in := rapid.SliceOf(payloads()).Draw(t, "payloads")
			encoded := in
			for i := len(c.codecs) - 1; i >= 0; i-- {
				encoded = mustCode(t, c.codecs[i].Encode, encoded)
			}
			for i, p := range encoded {
				if c.Encrypts() && (encodingOf(p) != encodingEncrypted || len(in[i].Data) >= 8 && bytes.Contains(p.Data, in[i].Data)) {
					t.Fatalf("payload %d is readable: %v", i, p)
				}
			}
			out := encoded
			for _, codec := range c.codecs {
				out = mustCode(t, codec.Decode, out)
			}
			if diff := cmp.Diff(in, out, protocmp.Transform()); diff != "" {
				t.Fatalf("decoded (-want +got):\n%s", diff)
			}
		}))
	}
}

func mustCode(
	t *rapid.T, code func([]*commonpb.Payload) ([]*commonpb.Payload, error), in []*commonpb.Payload,
) []*commonpb.Payload {
	out, err := code(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// payloads generates payloads around the size from which they are compressed.
func payloads() *rapid.Generator[*commonpb.Payload] {
	return rapid.Custom(func(t *rapid.T) *commonpb.Payload {
		unit := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "unit")
		return &commonpb.Payload{
			Metadata: map[string][]byte{
				converter.MetadataEncoding: []byte(rapid.SampledFrom([]string{"json/plain", "binary/null", "binary/plain"}).Draw(t, "encoding")),
				"messageType":              rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "type"),
			},
			Data: bytes.Repeat(unit, rapid.IntRange(0, 100).Draw(t, "times")),
		}
	})
}

// TestSmallPayloadsCostNothing: without keys, small payloads pass untouched.
func TestSmallPayloadsCostNothing(t *testing.T) {
	c := open(t)
	small := []*commonpb.Payload{{Data: make([]byte, 1<<10-1)}, {}}
	for _, codec := range c.codecs {
		allocs := testing.AllocsPerRun(10, func() {
			encoded, err := codec.Encode(small)
			if err != nil || &encoded[0] != &small[0] {
				t.Fatalf("%T encoded small payloads: %v", codec, err)
			}
			if decoded, err := codec.Decode(small); err != nil || &decoded[0] != &small[0] {
				t.Fatalf("%T decoded small payloads: %v", codec, err)
			}
		})
		if allocs > 0 {
			t.Errorf("%T makes %v allocations for small payloads", codec, allocs)
		}
	}
}

func TestCompression(t *testing.T) {
	c := open(t)
	if p := encode(t, c, strings.Repeat("sluice ", 1000)); encodingOf(p) != encodingZstd || len(p.Data) > 100 {
		t.Errorf("text of 7 kB became %s of %d bytes", encodingOf(p), len(p.Data))
	}
	noise := make([]byte, 4*compressFrom)
	rand.Read(noise)
	if p := encode(t, c, noise); encodingOf(p) != "binary/plain" {
		t.Errorf("noise became %s of %d bytes", encodingOf(p), len(p.Data))
	}
	if p := encode(t, open(t, "a"), strings.Repeat("sluice ", 1000)); len(p.Data) > 200 {
		t.Errorf("encrypted text of 7 kB has %d bytes: it was not compressed first", len(p.Data))
	}
}

func TestRotation(t *testing.T) {
	before, during, after := open(t, "old"), open(t, "new", "old"), open(t, "new")
	old, fresh := encode(t, before, "hello"), encode(t, during, "hello")
	if id := string(fresh.Metadata[metadataKeyID]); id != "new" {
		t.Errorf("written with %q, not with the first key of the file", id)
	}
	for _, tt := range []struct {
		name  string
		codec *Codec
		p     *commonpb.Payload
		err   []string // empty: it can be read
	}{
		{name: "old payload, both keys", codec: during, p: old},
		{name: "new payload, both keys", codec: during, p: fresh},
		{name: "new payload, new key", codec: after, p: fresh},
		{name: "old payload, key retired", codec: after, p: old, err: []string{`"old"`, after.KeyFile(), "add it, and restart"}},
		{name: "new payload, not rotated yet", codec: before, p: fresh, err: []string{`"new"`}},
		{name: "no keys at all", codec: open(t), p: fresh, err: []string{`"new"`, KeysVariable}},
		{name: "plain payload, keys", codec: after, p: encode(t, open(t), "hello"), err: []string{"not encrypted", "accept-plain"}},
		{name: "plain payload, accepted", codec: open(t, "new", acceptPlain), p: encode(t, open(t), "hello")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode(tt.codec, tt.p)
			if len(tt.err) == 0 && (err != nil || got != "hello") {
				t.Fatalf("got %q, %v", got, err)
			}
			for _, want := range tt.err {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want an error with %q", err, want)
				}
			}
		})
	}
}

// TestTampering changes every byte and every part of the metadata of a sealed payload.
func TestTampering(t *testing.T) {
	c := open(t, "a", "b")
	sealed := encode(t, c, "hello")
	refuse := func(what string, p *commonpb.Payload) {
		t.Helper()
		if got, err := decode(c, p); !errors.Is(err, errTampered) {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	clone := func() *commonpb.Payload {
		return &commonpb.Payload{Data: bytes.Clone(sealed.Data), Metadata: map[string][]byte{
			converter.MetadataEncoding: sealed.Metadata[converter.MetadataEncoding], metadataKeyID: sealed.Metadata[metadataKeyID],
		}}
	}
	for i := range sealed.Data {
		p := clone()
		p.Data[i] ^= 1
		refuse(fmt.Sprintf("byte %d", i), p)
	}
	for _, n := range []int{0, 1, len(sealed.Data) - 1} {
		p := clone()
		p.Data = p.Data[:n]
		refuse(fmt.Sprintf("cut to %d", n), p)
	}
	p := clone()
	p.Metadata[metadataKeyID] = []byte("b")
	refuse("another key's id", p)
	p = clone()
	p.Metadata["more"] = []byte("x")
	refuse("more metadata", p)

	same := open(t, "a") // the same id, another key
	same.ring.keys["a"] = c.ring.keys["b"]
	if got, err := decode(same, sealed); !errors.Is(err, errTampered) {
		t.Errorf("wrong key: got %q, %v", got, err)
	}
	if again := encode(t, c, "hello"); bytes.Equal(again.Data, sealed.Data) {
		t.Error("the same payload twice is the same ciphertext")
	}
}

// TestBomb: a few bytes that say they are gigabytes are refused, also when the gigabytes come in pieces.
func TestBomb(t *testing.T) {
	var bomb bytes.Buffer
	w, err := zstd.NewWriter(&bomb)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range maxPayload/len(zeros) + 1 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	frame := compressor().EncodeAll(zeros, nil)
	for name, data := range map[string][]byte{
		"a stream": bomb.Bytes(),
		"frames":   bytes.Repeat(frame, maxPayload/len(zeros)+1),
	} {
		p := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingZstd)}, Data: data}
		if _, err := decode(open(t), p); !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			t.Errorf("%s of %d bytes: %v", name, len(data), err)
		}
	}
	if _, err := open(t).DataConverter().ToPayload(make([]byte, maxPayload+1)); err == nil {
		t.Error("a payload was encoded that could not be decoded")
	}
}

func TestConfigure(t *testing.T) {
	secret := errors.New("the secret cause")
	for _, tt := range []struct {
		codec *Codec
		seen  bool
	}{{open(t), true}, {open(t, "a"), false}} {
		var o client.Options
		tt.codec.Configure(&o)
		failure := o.FailureConverter.ErrorToFailure(temporal.NewApplicationErrorWithCause("outer", "user", secret, "detail"))
		if seen := strings.Contains(failure.String(), "secret"); seen != tt.seen {
			t.Errorf("encrypts %v: the failure is %v", tt.codec.Encrypts(), failure)
		}
		if err := o.FailureConverter.FailureToError(failure); !strings.Contains(err.Error(), "outer") || failure.GetApplicationFailureInfo().GetType() != "user" {
			t.Errorf("encrypts %v: the error comes back as %v of type %q", tt.codec.Encrypts(), err, failure.GetApplicationFailureInfo().GetType())
		}
	}
}

// A failure that is no valid UTF-8 could not be sent.
func TestFailuresAreText(t *testing.T) {
	var o client.Options
	open(t).Configure(&o)
	for _, err := range []error{
		errors.New("it said \xff\xfe"),
		temporal.NewApplicationErrorWithCause("outer \xff", "user", errors.New("inner \xfe")),
	} {
		sent, refused := proto.Marshal(o.FailureConverter.ErrorToFailure(err))
		if refused != nil {
			t.Fatalf("%q: %v", err, refused)
		}
		var got failurepb.Failure
		if err := proto.Unmarshal(sent, &got); err != nil || !strings.Contains(got.GetMessage(), "\uFFFD") {
			t.Errorf("%q came as %q, %v", err, got.GetMessage(), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := open(f, "a")
	sealed, packed := encode(f, c, "hello"), encode(f, open(f), strings.Repeat("x", 2*compressFrom))
	f.Add([]byte(encodingEncrypted), []byte("a"), sealed.Data)
	f.Add([]byte(encodingZstd), []byte(""), packed.Data)
	f.Add([]byte("json/plain"), []byte("a"), []byte(`"x"`))
	f.Fuzz(func(t *testing.T, encoding, id, data []byte) {
		p := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: encoding, metadataKeyID: id}, Data: data}
		start := time.Now()
		got, err := decode(c, p)
		if err == nil && string(encoding) == encodingEncrypted && got != "hello" {
			t.Errorf("forged %q", got)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%d bytes took %v", len(data), took)
		}
	})
}

// TestLongMessage: an error that quotes too much for Temporal keeps its beginning and its end.
func TestLongMessage(t *testing.T) {
	converter := open(t).FailureConverter()
	err := fmt.Errorf("first: %w", errors.New(strings.Repeat("é", 3<<20)+" last"))
	failed := converter.ErrorToFailure(err)
	if got := failed.GetMessage(); failed.Size() > 4*maxMessage || !strings.HasPrefix(got, "first: ") || !strings.HasSuffix(got, " last") || !utf8.ValidString(got) {
		t.Errorf("a failure of %d bytes, with the message %.20q", failed.Size(), got)
	}
}
