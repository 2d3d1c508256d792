package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// stick is the sticky traffic of a split that follows a document.
func stick(doc routing.Document, split Split) *routing.Sticky {
	if split.Sticky == nil || split.Candidate == "" {
		return nil
	}
	next := *split.Sticky
	next.Held = 0
	if doc.Sticky != nil && doc.Candidate == split.Candidate && split.Stable != "" {
		had, _ := doc.Release(split.Candidate)
		next.Held = max(doc.Sticky.Held, had.Weight)
	}
	return &next
}

// hashOf is the hash of a key: the same in every gateway and at every time of a rollout, and another in the next, so that it is not always
// the same keys that get a candidate first.
func hashOf(target, candidate, key string) uint64 {
	sum := sha256.Sum256([]byte(target + "\n" + candidate + "\n" + key))
	return binary.BigEndian.Uint64(sum[:])
}

// keyOf reads the key of a request as the routing asks for it; empty when there is none, or traffic is not sticky.
// field reads a field of the body.
func (g *Gateway) keyOf(header http.Header, field func(name string) (string, error)) (string, error) {
	g.mu.RLock()
	var sticky *routing.Sticky
	if g.table != nil {
		sticky = g.table.sticky
	}
	g.mu.RUnlock()
	switch {
	case sticky == nil:
		return "", nil
	case sticky.Header != "":
		return header.Get(sticky.Header), nil
	}
	return field(sticky.Field)
}

// keyOfRequest is a parameter, or the input of that name.
func keyOfRequest(name string, req *oip.InferRequest) (string, error) {
	if value, ok := req.Parameters[name]; ok {
		return keyOfParameter("parameters."+name, value)
	}
	i := slices.IndexFunc(req.Inputs, func(t oip.Tensor) bool { return t.Name == name })
	if i < 0 {
		return "", nil
	}
	return keyOfTensor(req.Inputs[i])
}

// keyOfJSON is a field of a JSON object; a body that is none has no key.
func keyOfJSON(name string, body []byte) (string, error) {
	raw := oip.Field(body, name)
	switch {
	case raw == nil:
		return "", nil
	case raw[0] == '[' || raw[0] == '{': // which takes many times its bytes when it is decoded
		return "", noKey(name, string(raw[:min(len(raw), maxShownKey+1)]))
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil || value == nil {
		return "", err
	}
	return keyOfParameter(name, value)
}

// keyOfParameter is a key in its written form, which is the same for a number in JSON and in gRPC.
func keyOfParameter(name string, value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", noKey(name, fmt.Sprint(value))
}

// maxShownKey bounds what an error shows of a key, in bytes.
const maxShownKey = 100

func noKey(name, shown string) error {
	return oip.Invalid("%s is %s; it decides which release answers, so it must be a string, a number or a boolean", name, oip.Cut(shown, maxShownKey))
}

// keyOfTensor is the key that all elements of an input are.
func keyOfTensor(t oip.Tensor) (string, error) {
	elements := reflect.ValueOf(t.Data)
	if elements.Kind() != reflect.Slice || elements.Len() == 0 {
		return "", nil // the model refuses it
	}
	first := elements.Index(0)
	for i := range elements.Len() {
		if other := elements.Index(i); !other.Equal(first) {
			return "", oip.Invalid("input %q has the keys %q and %q; it decides which release answers, so send the rows of each key in a request of their own", t.Name, fmt.Sprint(first), fmt.Sprint(other))
		}
	}
	return fmt.Sprint(first), nil
}

// drawn is where a request falls in the split.
type drawn struct {
	hash  uint64
	byKey bool // other requests of the key fall there, too; else chance has decided about this one alone
}

func (t *table) draw(target, key string) drawn {
	if t.sticky == nil || key == "" {
		return drawn{hash: rand.Uint64()}
	}
	return drawn{hash: hashOf(target, t.candidate, key), byKey: true}
}

// place is where in the traffic, from 0 up to 1, a request falls. In sticky traffic it is the middle of a cell, so that a cell has one release.
func (t *table) place(d drawn) float64 {
	if t.sticky != nil {
		return (float64(stats.CellOf(d.hash)) + 0.5) / stats.Cells
	}
	return float64(d.hash>>11) / (1 << 53)
}

// keyed is where counting by key begins; nil where traffic is not sticky.
func (t *table) keyed() *stats.Keyed {
	if t.sticky == nil {
		return nil
	}
	return &stats.Keyed{From: stats.CellsOf(t.sticky.Held), To: stats.CellsOf(t.weights()[t.candidate]), First: map[string]stats.Counts{}}
}
