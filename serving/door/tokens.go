package door

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
)

const (
	// skew is how far the clocks of an issuer and of a gateway may be apart.
	skew = time.Minute
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// algorithms are those of which only the issuer has what signs. A token that names another one, or none, is not looked at.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// tokens are the rules for JWTs of a target.
type tokens struct {
	rules []rule
	sets  map[string]*keySet // by where they are
}

type rule struct {
	spec.GatewayJWT
	set *keySet
}

// newTokens reads the key sets. One that is to be fetched may come later, so that a gateway starts while an issuer is away.
func newTokens(ctx context.Context, specs []spec.GatewayJWT, log *slog.Logger) (*tokens, error) {
	t := &tokens{sets: map[string]*keySet{}}
	for _, s := range specs {
		set := t.sets[s.JWKS]
		if set == nil {
			var err error
			if set, err = openKeySet(ctx, s.JWKS, log); err != nil {
				return nil, err
			}
			t.sets[s.JWKS] = set
		}
		t.rules = append(t.rules, rule{s, set})
	}
	return t, nil
}

func (t *tokens) refresh(ctx context.Context) {
	for _, set := range t.sets {
		set.refresh(ctx)
	}
}

// verify returns who a token says that it was issued to, and what the rules that it meets allow.
func (t *tokens) verify(ctx context.Context, raw string) (Caller, error) {
	if len(raw) > maxToken {
		return Caller{}, untrusted("it is longer than %d bytes", maxToken)
	}
	token, err := jwt.ParseSigned(raw, algorithms)
	if err != nil {
		return Caller{}, untrusted("it is neither an API key of the target nor a JWT that is signed with RS256, ES256 or EdDSA")
	}
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return Caller{}, untrusted("its claims cannot be read")
	}
	issuer := claims.Issuer
	why := untrusted("its issuer is none whose tokens are accepted here")
	caller := Caller{name: "the token"}
	signed := map[*keySet]error{}
	met := false
	for _, r := range t.rules {
		if r.Issuer != issuer {
			continue
		}
		err, known := signed[r.set]
		if !known {
			err = r.set.check(ctx, token)
			signed[r.set] = err
		}
		if err == nil {
			err = r.meets(claims)
		}
		if err != nil {
			why = err
			continue
		}
		met = true
		if r.hasClaims(token) {
			caller.allowed = append(caller.allowed, verbs(r.Allow)...)
		}
	}
	if !met {
		return Caller{}, why
	}
	caller.subject = claims.Subject
	return caller, nil
}

// meets refuses claims of a token that is not for here, or not for now.
func (r rule) meets(claims jwt.Claims) error {
	if claims.Expiry == nil {
		return untrusted("it never expires: it has no claim `exp`")
	}
	expected := jwt.Expected{Issuer: r.Issuer, AnyAudience: jwt.Audience{r.Audience}, Time: time.Now()}
	switch err := claims.ValidateWithLeeway(expected, skew); {
	case errors.Is(err, jwt.ErrExpired):
		return untrusted("it has expired")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return untrusted("it is not valid yet")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return untrusted("it is for another audience than %s", r.Audience)
	case err != nil:
		return untrusted("%v", err)
	}
	return nil
}

// hasClaims reports whether a token, whose signature was verified, has the claims that the rule asks for.
func (r rule) hasClaims(token *jwt.JSONWebToken) bool {
	if len(r.Claims) == 0 {
		return true
	}
	var all map[string]any
	if err := token.UnsafeClaimsWithoutVerification(&all); err != nil {
		return false
	}
	for name, want := range r.Claims {
		switch have := all[name].(type) {
		case string:
			if have != want && (!isScope(name) || !slices.Contains(strings.Fields(have), want)) {
				return false
			}
		case []any:
			if !slices.Contains(have, any(want)) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// isScope reports whether a claim is a list of words (RFC 8693, section 4.2; Entra calls it scp). A name that a person gave themselves must not
// count as its words.
func isScope(claim string) bool { return claim == "scope" || claim == "scp" }

func untrusted(format string, args ...any) error {
	return refuse(http.StatusUnauthorized, "the token is not accepted: "+format, args...)
}

// unavailable is the answer to a token that cannot be verified now.
func unavailable(set string) error {
	return &oip.Error{
		Status: http.StatusServiceUnavailable, Message: "the token cannot be verified now: the issuer's keys at " + set + " have not been read yet", RetryAfter: fetchEvery,
	}
}
