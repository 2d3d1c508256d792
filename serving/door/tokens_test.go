package door

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/door/doortest"
)

// issuer publishes key sets.
type issuer struct {
	*httptest.Server
	set     atomic.Pointer[[]byte] // nil: it fails
	fetched atomic.Int32
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetched.Add(1)
		switch set := i.set.Load(); {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case set == nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = w.Write(*set) // a client that hangs up is the test's
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(set []byte) { i.set.Store(&set) }

func (i *issuer) door(t *testing.T, path string) *Door {
	t.Helper()
	return new(rig).open(t, spec.TargetGateway{JWT: []spec.GatewayJWT{
		{Issuer: "https://issuer.test", Audience: "shop", JWKS: i.URL + path, Allow: []string{"infer"}},
	}}, time.Hour)
}

// past makes a set believe that it was read long ago.
func past(d *Door) {
	for _, set := range d.tokens.sets {
		set.mu.Lock()
		set.tried = time.Time{}
		set.mu.Unlock()
	}
}

func TestTokens(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	es, rs, ed := doortest.NewSigner(t, "es"), doortest.Signer{ID: "rs", Algorithm: jose.RS256, Key: rsaKey}, doortest.Signer{ID: "ed", Algorithm: jose.EdDSA, Key: edKey}
	i := newIssuer(t)
	i.publish(doortest.KeySet(t, es, rs, ed))
	d := i.door(t, "/keys")
	now := time.Now()
	in := func(after time.Duration) int64 { return now.Add(after).Unix() }
	claims := doortest.Claims
	public, err := json.Marshal(jose.JSONWebKey{Key: es.Key.(crypto.Signer).Public()})
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	good := es.Token(t, claims(nil))
	pieces := strings.Split(good, ".")
	for _, tc := range []struct {
		name, token string
		status      int
		says        string
	}{
		{"ES256", good, 200, ""},
		{"RS256", rs.Token(t, claims(nil)), 200, ""},
		{"EdDSA", ed.Token(t, claims(nil)), 200, ""},
		{"of one of two audiences", es.Token(t, claims(map[string]any{"aud": []string{"other", "shop"}})), 200, ""},
		{"without the name of the key", doortest.Signer{Algorithm: jose.ES256, Key: es.Key}.Token(t, claims(nil)), 200, ""},
		{"expired within the skew", es.Token(t, claims(map[string]any{"exp": in(-30 * time.Second)})), 200, ""},
		{"expired", es.Token(t, claims(map[string]any{"exp": in(-2 * time.Minute)})), 401, "has expired"},
		{"never expires", es.Token(t, claims(map[string]any{"exp": nil})), 401, "no claim `exp`"},
		{"valid soon, within the skew", es.Token(t, claims(map[string]any{"nbf": in(30 * time.Second)})), 200, ""},
		{"valid later", es.Token(t, claims(map[string]any{"nbf": in(5 * time.Minute)})), 401, "not valid yet"},
		{"of the future", es.Token(t, claims(map[string]any{"iat": in(5 * time.Minute)})), 401, "not valid yet"},
		{"for another audience", es.Token(t, claims(map[string]any{"aud": "other"})), 401, "another audience"},
		{"for nobody", es.Token(t, claims(map[string]any{"aud": nil})), 401, "another audience"},
		{"of another issuer", es.Token(t, claims(map[string]any{"iss": "https://evil.test"})), 401, "its issuer"},
		{"of no issuer", es.Token(t, claims(map[string]any{"iss": nil})), 401, "its issuer"},
		{"of another key under the same name", doortest.NewSigner(t, "es").Token(t, claims(nil)), 401, "no key of its issuer"},
		{"of an unknown key", doortest.NewSigner(t, "new").Token(t, claims(nil)), 401, "no key of its issuer"},
		{"with the algorithm of another key", doortest.Signer{ID: "rs", Algorithm: jose.ES256, Key: es.Key}.Token(t, claims(nil)), 401, "no key of its issuer"},
		{"not signed", part(map[string]string{"alg": "none"}) + "." + pieces[1] + ".", 401, "RS256, ES256 or EdDSA"},
		{"signed with the public key as a secret", doortest.Signer{ID: "es", Algorithm: jose.HS256, Key: public}.Token(t, claims(nil)), 401, "RS256, ES256 or EdDSA"},
		{"RS512", doortest.Signer{ID: "rs", Algorithm: jose.RS512, Key: rsaKey}.Token(t, claims(nil)), 401, "RS256, ES256 or EdDSA"},
		{"PS256", doortest.Signer{ID: "rs", Algorithm: jose.PS256, Key: rsaKey}.Token(t, claims(nil)), 401, "RS256, ES256 or EdDSA"},
		{"changed", pieces[0] + "." + part(claims(map[string]any{"sub": "admin"})) + "." + pieces[2], 401, "no key of its issuer"},
		{"without a signature", pieces[0] + "." + pieces[1] + ".", 401, "token is not accepted"},
		{"too long", es.Token(t, claims(map[string]any{"more": strings.Repeat("x", maxToken)})), 401, "longer than"},
		{"no token", "hello", 401, "neither an API key"},
	} {
		status, why := ask(d, Infer, tc.token)
		if status != tc.status || !strings.Contains(why, tc.says) {
			t.Errorf("%s: %d %s, want %d with %q", tc.name, status, why, tc.status, tc.says)
		}
		if why != "" && strings.Contains(why, tc.token) {
			t.Errorf("%s: the token is in %q", tc.name, why)
		}
	}
}

func TestKeySetsChange(t *testing.T) {
	first, second := doortest.NewSigner(t, "1"), doortest.NewSigner(t, "2")
	i := newIssuer(t)
	i.publish(doortest.KeySet(t, first))
	d := i.door(t, "/keys")
	admitted := func(s doortest.Signer, want int) {
		t.Helper()
		if status, why := ask(d, Infer, s.Token(t, doortest.Claims(nil))); status != want {
			t.Errorf("key %s: %d %s, want %d", s.ID, status, why, want)
		}
	}
	admitted(first, 200)
	i.publish(doortest.KeySet(t, second))
	for range 50 {
		admitted(second, 401) // it was read just now
	}
	if n := i.fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
	past(d)
	admitted(second, 200)
	admitted(first, 401)
	if n := i.fetched.Load(); n != 2 {
		t.Errorf("the keys were fetched %d times, want twice", n)
	}
	i.set.Store(nil)
	past(d)
	d.tokens.refresh(t.Context())
	admitted(second, 200) // the issuer is away
	i.publish(doortest.KeySet(t, first))
	d.tokens.refresh(t.Context()) // tries again after a failure
	admitted(first, 200)
}

func TestAnIssuerThatIsAway(t *testing.T) {
	signer := doortest.NewSigner(t, "1")
	token := signer.Token(t, doortest.Claims(nil))
	i := newIssuer(t)
	d := i.door(t, "/keys")
	if status, why := ask(d, Infer, token); status != 503 || !strings.Contains(why, "have not been read yet") {
		t.Errorf("%d %s", status, why)
	}
	for name, answer := range map[string]string{
		"too large": `{"keys":[]}` + strings.Repeat(" ", maxKeySet), "too many": `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`, "no keys": `{"keys":[]}`,
	} {
		i.publish([]byte(answer))
		past(d)
		if status, _ := ask(d, Infer, token); status != 503 {
			t.Errorf("%s: %d", name, status)
		}
	}
	i.publish(doortest.KeySet(t, signer))
	past(d)
	if status, why := ask(d, Infer, token); status != 200 {
		t.Errorf("the issuer is back: %d %s", status, why)
	}
	if status, _ := ask(i.door(t, "/moved"), Infer, token); status != 503 {
		t.Errorf("a redirect: %d, want that it is not followed", status)
	}
}

func FuzzToken(f *testing.F) {
	set := `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"x"}]}`
	keys, err := parseKeySet([]byte(set))
	if err != nil {
		f.Fatal(err)
	}
	s := &keySet{where: "a set", tried: time.Now().Add(time.Hour)}
	s.keys.Store(&keys)
	rules := &tokens{rules: []rule{{spec.GatewayJWT{Issuer: "i", Audience: "a", Allow: []string{"infer"}}, s}}}
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJpIn0.", set)
	f.Add("a.b.c", `{"keys":[{"kty":"RSA","n":"AA","e":"AQAB"}]}`)
	f.Fuzz(func(t *testing.T, token, set string) {
		if c, err := rules.verify(t.Context(), token); err == nil {
			t.Errorf("%s was let in by %q, which nobody signed", c, token)
		}
		_, _ = parseKeySet([]byte(set)) // it must not panic
	})
}
