package door

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sluiceml/sluice/internal/secret"
)

const (
	// fetchEvery is the least time between two fetches that tokens with unknown keys cause.
	fetchEvery = 10 * time.Second
	// fetchedFor is how long a fetched set is used before it is fetched again.
	fetchedFor   = 5 * time.Minute
	fetchTimeout = 5 * time.Second
	maxKeySet    = 1 << 20 // bytes
	maxKeys      = 100
	minRSA       = 2048 // bits
)

// keySet is the public keys of an issuer (RFC 7517), in a file or at a URL.
type keySet struct {
	where  string
	remote bool
	client *http.Client
	log    *slog.Logger
	keys   atomic.Pointer[[]jose.JSONWebKey] // nil until they were read

	mu     sync.Mutex // of those who read
	tried  time.Time
	failed bool
}

// openKeySet reads a set. A URL that does not answer is no error.
func openKeySet(ctx context.Context, where string, log *slog.Logger) (*keySet, error) {
	s := &keySet{where: where, log: log, remote: isRemote(where)}
	if !s.remote {
		return s, s.readFile(ctx)
	}
	at, err := url.Parse(where)
	if err != nil || at.Host == "" || !secret.SafeURL(at) {
		return nil, unusable(fmt.Errorf("jwks: %s is not an https URL", where), "use https, so that nobody can send other keys")
	}
	s.client = &http.Client{
		Timeout:   fetchTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		// Whoever may redirect it could say who is let in.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.tried = time.Now()
	s.failed = s.read(ctx) != nil
	if s.failed {
		log.Warn("the keys of an issuer cannot be fetched yet; its tokens are answered with status 503 until they are", "jwks", where)
	}
	return s, nil
}

func isRemote(where string) bool { return strings.Contains(where, "://") }

// readFile reads a set for who opens the door.
func (s *keySet) readFile(ctx context.Context) error {
	var err error
	if filepath.IsAbs(s.where) {
		err = s.read(ctx)
	} else {
		err = fmt.Errorf("jwks: the path %s is not absolute", s.where)
	}
	if err != nil {
		err = unusable(err, "`jwks` is the path of a file with the public keys of the issuer, or an https URL")
	}
	return err
}

// refresh reads the set again when that is due.
func (s *keySet) refresh(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.remote && !s.failed && time.Since(s.tried) < fetchedFor {
		return
	}
	s.again(ctx)
}

// again reads the set, and says in the log when that has begun to fail; the caller holds the lock.
func (s *keySet) again(ctx context.Context) {
	s.tried = time.Now()
	err := s.read(ctx)
	if err != nil && !s.failed && ctx.Err() == nil {
		s.log.Warn("the keys of an issuer cannot be read; the last ones stay in use", "jwks", s.where, "error", err)
	}
	s.failed = err != nil
}

func (s *keySet) read(ctx context.Context) error {
	raw, err := s.raw(ctx)
	if err != nil {
		return fmt.Errorf("jwks: %w", err)
	}
	keys, err := parseKeySet(raw)
	if err != nil {
		return fmt.Errorf("jwks: %s: %w", s.where, err)
	}
	s.keys.Store(&keys)
	return nil
}

func (s *keySet) raw(ctx context.Context) ([]byte, error) {
	if !s.remote {
		return readBounded(s.where, maxKeySet)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.where, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err == nil && len(raw) > maxKeySet {
		err = fmt.Errorf("%s is larger than %d bytes", s.where, maxKeySet)
	}
	return raw, err
}

// parseKeySet returns the keys that can verify tokens here, and leaves out what else a set has.
func parseKeySet(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("it is not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) == nil && key.Valid() && (key.Use == "" || key.Use == "sig") && algorithmOf(key) != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no public key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// algorithmOf is the one algorithm that a key is used with; none for a key that can sign, is too short, or is for another.
func algorithmOf(key jose.JSONWebKey) jose.SignatureAlgorithm {
	var is jose.SignatureAlgorithm
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSA {
			is = jose.RS256
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			is = jose.ES256
		}
	case ed25519.PublicKey:
		is = jose.EdDSA
	}
	if key.Algorithm != "" && key.Algorithm != string(is) {
		return ""
	}
	return is
}

// check verifies the signature of a token. A key that the set does not have may be a new one, so the set is read again, now and then.
func (s *keySet) check(ctx context.Context, token *jwt.JSONWebToken) error {
	err := s.signed(token)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.tried) >= fetchEvery {
		s.again(context.WithoutCancel(ctx)) // for others, too
	}
	return s.signed(token) // which may have been read meanwhile by another
}

// signed reports whether a key of the set made the token's signature.
func (s *keySet) signed(token *jwt.JSONWebToken) error {
	keys := s.keys.Load()
	if keys == nil {
		return unavailable(s.where)
	}
	header := token.Headers[0] // the compact form has one
	for _, key := range *keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || string(algorithmOf(key)) != header.Algorithm {
			continue
		}
		if token.Claims(key.Key) == nil {
			return nil
		}
	}
	return untrusted("no key of its issuer has signed it")
}
