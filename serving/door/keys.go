package door

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/sluiceml/sluice/dsl/spec"
)

// minKey is how long an API key must be, in bytes: it can be guessed without a limit.
const minKey = 16

// keys are the API keys of a target. Only their hashes are kept.
type keys struct {
	specs  []spec.GatewayKey
	secret func(ctx context.Context, name string) (string, bool, error)
	log    *slog.Logger
	known  atomic.Pointer[[]key]
}

type key struct {
	hash   [sha256.Size]byte
	usable bool // its secret was read
	caller Caller
}

// readKeys reads all keys, or it is an error.
func readKeys(
	ctx context.Context, specs []spec.GatewayKey, secret func(context.Context, string) (string, bool, error), log *slog.Logger,
) (*keys, error) {
	k := &keys{specs: specs, secret: secret, log: log}
	known := make([]key, len(specs))
	for i, s := range specs {
		var err error
		if known[i], err = k.readFirst(ctx, s); err != nil {
			return nil, err
		}
	}
	k.known.Store(&known)
	return k, nil
}

// readFirst reads a key for who opens the door.
func (k *keys) readFirst(ctx context.Context, s spec.GatewayKey) (key, error) {
	read, _, err := k.read(ctx, s)
	if errors.Is(err, errShort) {
		err = unusable(err, "make a longer one, such as with `openssl rand -hex 24`")
	}
	return read, err
}

// errShort says that an API key could be guessed.
var errShort = fmt.Errorf("an API key must have at least %d", minKey)

func (k *keys) read(ctx context.Context, s spec.GatewayKey) (key, bool, error) {
	value, temporary, err := k.secret(ctx, s.Secret)
	if err == nil && len(value) < minKey {
		err = fmt.Errorf("secret %s: its value has %d bytes; %w", s.Secret, len(value), errShort)
	}
	if err != nil {
		return key{}, temporary, fmt.Errorf("an API key: %w", err)
	}
	return key{hash: sha256.Sum256([]byte(value)), usable: true, caller: Caller{name: "the key " + s.Secret, allowed: verbs(s.Allow), key: s.Secret}}, false, nil
}

// refresh reads the keys again. One that is gone is refused from now on; one that cannot be read now stays as it was.
func (k *keys) refresh(ctx context.Context) {
	before := *k.known.Load()
	now := make([]key, len(before))
	for i, s := range k.specs {
		read, temporary, err := k.read(ctx, s)
		switch {
		case err == nil:
			now[i] = read
		case temporary || ctx.Err() != nil:
			now[i] = before[i]
		case before[i].usable:
			k.log.Error("an API key is refused from now on", "error", err)
		}
	}
	k.known.Store(&now)
}

// find returns who a key belongs to. It compares with all of them, whichever it is.
func (k *keys) find(bearer string) (caller Caller, ok bool) {
	hash := sha256.Sum256([]byte(bearer))
	for _, one := range *k.known.Load() {
		if subtle.ConstantTimeCompare(hash[:], one.hash[:]) == 1 && one.usable {
			caller, ok = one.caller, true
		}
	}
	return caller, ok
}

func verbs(names []string) []Verb {
	all := make([]Verb, len(names))
	for i, name := range names {
		all[i] = Verb(name)
	}
	return all
}
