package engine

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// saltKey is where a store keeps the salt of its fingerprints.
const saltKey = store.FingerprintsPrefix + "salt.json"

// fingerprintRounds make a guess at a secret take a fraction of a second.
const fingerprintRounds = 600_000

// secretLimit bounds the search for values here, where a step waits to begin: its own may take longer.
const secretLimit = 5 * time.Second

// Fingerprint tells one value of a secret from another in keys, which many can read, and gives the value away to nobody: it is salted,
// and slow to try values for.
func (e *Engine) Fingerprint(ctx context.Context, value string) (string, error) {
	s, err := e.salt(ctx)
	if err != nil {
		return "", fmt.Errorf("the salt of the store: %w", err)
	}
	seen := sha256.Sum256(slices.Concat(s, []byte(value))) // in this process's memory alone
	return e.fingerprints.get(string(seen[:]), func() (string, error) {
		sum, err := pbkdf2.Key(sha256.New, value, s, fingerprintRounds, 16)
		return hex.EncodeToString(sum), err
	})
}

// salt makes the fingerprints of one store differ from those of any other. The first who needs it makes it.
func (e *Engine) salt(ctx context.Context) ([]byte, error) {
	var s struct {
		Salt []byte `json:"salt"`
	}
	err := e.Store.GetJSON(ctx, saltKey, &s)
	if !errors.Is(err, store.ErrNotFound) {
		return s.Salt, err
	}
	s.Salt = make([]byte, 16)
	_, _ = rand.Read(s.Salt) // it never fails
	if err := e.Store.PutJSON(ctx, saltKey, s, store.WriteOptions{IfAbsent: true}); !errors.Is(err, store.ErrExists) {
		return s.Salt, err
	}
	err = e.Store.GetJSON(ctx, saltKey, &s)
	return s.Salt, err
}

// hashKeyParts are the parts of a step's key for the secrets that its hashes, or those of the child that it runs, are made with: what
// another value hashed is another result. A value that cannot be read here, or whose secret is not known, has a part like no other, and
// nothing is taken over; the cleaning itself says why.
func (e *Engine) hashKeyParts(ctx context.Context, program *dsl.Program, node spec.Node, resolved dsl.Resolved) (map[string]string, error) {
	hashKeys := kinds[node.Kind].hashKeys
	if hashKeys == nil {
		return nil, nil
	}
	secrets, open, err := hashKeys(program, node, resolved)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the resolved spec of "+node.ID+" cannot be read: "+err.Error(), err)
	}
	within, cancel := context.WithTimeout(ctx, secretLimit)
	defer cancel()
	parts := map[string]string{}
	if open {
		parts["secrets.value"] = rand.Text()
	}
	for what, name := range secrets {
		part := "secrets." + what + ".value"
		value, err := e.Secrets.Value(within, program.Environment(), name)
		if err != nil {
			parts[part] = rand.Text()
			continue
		}
		if parts[part], err = e.Fingerprint(ctx, value); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
