package codec

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// noise is text that no compression takes below the size from which payloads go to the store.
func noise() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 2*128<<10)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// post asks a handler as Temporal's UI does and returns the payloads it answers with.
func post(t *testing.T, h http.Handler, path string, payloads ...*commonpb.Payload) []*commonpb.Payload {
	t.Helper()
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	if err != nil {
		t.Fatal(err)
	}
	response := httptest.NewRecorder()
	h.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body)))
	if response.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, response.Code, response.Body)
	}
	var answer commonpb.Payloads
	if err := protojson.Unmarshal(response.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return answer.Payloads
}

// TestHandler: payloads go through all stages and back, the large ones by way of the store.
func TestHandler(t *testing.T) {
	large := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("json/plain")}, Data: []byte(noise())}
	small := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("json/plain")}, Data: []byte(`"hello"`)}
	for name, c := range map[string]*Codec{"plain": open(t), "encrypted": open(t, "a")} {
		t.Run(name, func(t *testing.T) {
			h, err := c.Handler()
			if err != nil {
				t.Fatal(err)
			}
			encoded := post(t, h, "/encode", small, large)
			ref := encoded[1]
			if len(ref.Data) > 500 || len(ref.ExternalPayloads) != 1 || strings.Contains(ref.String(), noise()[:20]) {
				t.Fatalf("the large payload became %v", ref)
			}
			if got := post(t, h, "/decode", encoded...); !proto.Equal(got[0], small) || !proto.Equal(got[1], large) {
				t.Errorf("decoded, they are %.500v", got)
			}
			// The UI leaves references alone until somebody wants to see what is behind one.
			if kept := post(t, h, "/decode?preserveStorageRefs=true", encoded...)[1]; !proto.Equal(ref, kept) {
				t.Errorf("the reference became %.500v", kept)
			}
			if got := post(t, h, "/download", ref)[0]; !proto.Equal(got, large) {
				t.Errorf("downloaded, it is %.500v", got)
			}
			if seen := stored(t, c, noise()); seen == c.Encrypts() {
				t.Errorf("encrypts %v, and the store shows the payload: %v", c.Encrypts(), seen)
			}
		})
	}
}

// stored reports whether any object in the codec's store contains text.
func stored(t *testing.T, c *Codec, text string) bool {
	t.Helper()
	d := c.storage.Drivers[0].(driver).store.Driver()
	objects, found := 0, false
	for info, err := range d.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Read(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		objects++
		found = found || bytes.Contains(data, []byte(text))
	}
	if objects == 0 {
		t.Error("the store is empty")
	}
	return found
}

func TestRetrieveFails(t *testing.T) {
	c := open(t)
	d := c.storage.Drivers[0].(driver)
	garbage, _, err := d.store.PutBlob(t.Context(), strings.NewReader("\xff not a payload"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ digest, want string }{
		"gone":         {"sha256:" + strings.Repeat("0", 64), "another store"},
		"no digest":    {"../../etc/passwd", "is not a digest"},
		"missing":      {"", "is not a digest"},
		"no payload":   {garbage, "decode a payload"},
		"upper letter": {strings.ToUpper(garbage), "is not a digest"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := converter.StorageDriverClaim{ClaimData: map[string]string{claimDigest: tt.digest}}
			_, err := d.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, []converter.StorageDriverClaim{claim})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), d.store.URL()) {
				t.Errorf("got %v, want %q and the store", err, tt.want)
			}
		})
	}
	over, _, err := d.store.PutBlob(t.Context(), io.LimitReader(zeros{}, maxPayload+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.load(converter.StorageDriverRetrieveContext{Context: t.Context()}, over); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a blob larger than a payload: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	big := []*commonpb.Payload{{Data: []byte(noise())}}
	if _, err := d.Store(converter.StorageDriverStoreContext{Context: canceled}, big); err == nil {
		t.Error("a canceled call stored a payload")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestForOrigins(t *testing.T) {
	c := open(t)
	inner, err := c.Handler()
	if err != nil {
		t.Fatal(err)
	}
	const ui = "https://temporal.example.com"
	h := ForOrigins(inner, []string{ui})
	for _, tt := range []struct {
		name, method, origin string
		body                 io.Reader
		status               int
	}{
		{"preflight", http.MethodOptions, ui, nil, http.StatusNoContent},
		{"preflight of another site", http.MethodOptions, "https://evil.example.com", nil, http.StatusForbidden},
		{"post", http.MethodPost, ui, strings.NewReader("{}"), http.StatusOK},
		{"post of another site", http.MethodPost, "https://evil.example.com", strings.NewReader("{}"), http.StatusForbidden},
		{"post of a page without an origin", http.MethodPost, "null", strings.NewReader("{}"), http.StatusForbidden},
		{"post of a program", http.MethodPost, "", strings.NewReader("{}"), http.StatusOK},
		{"get", http.MethodGet, ui, nil, http.StatusNotFound},
		{"too much", http.MethodPost, ui, io.LimitReader(zeros{}, maxRequest+1), http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tt.method, "/decode", tt.body)
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := ""
			if tt.origin == ui {
				want = ui
			}
			if w.Code != tt.status || w.Header().Get("Access-Control-Allow-Origin") != want {
				t.Errorf("got %d for %q: %s", w.Code, w.Header().Get("Access-Control-Allow-Origin"), w.Body)
			}
		})
	}
}
