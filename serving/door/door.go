// Package door decides who may ask a target's gateway for what: it has the gateway's certificate, and knows callers by their API keys,
// their tokens and the certificates of their own.
//
// What a door needs may change while it is open: certificates, keys and the key sets of issuers are read again. What cannot be read then
// leaves in effect what was read before, but for an API key that is gone, which is refused.
package door

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/oip"
)

// Verb is something that callers ask for. The names are those of the environment.
type Verb string

// The verbs.
const (
	Infer   Verb = "infer"   // the model, and its metadata
	Label   Verb = "label"   // send the right answer along
	Metrics Verb = "metrics" // read the metrics
	Admin   Verb = "admin"   // the repository API
)

// refreshEvery is how often keys are read again.
const refreshEvery = 30 * time.Second

// Options say what a door is made of.
type Options struct {
	Target  string
	Gateway spec.TargetGateway
	// Secret returns the value of a secret by its name. An error that lasted says so by temporary.
	Secret func(ctx context.Context, name string) (value string, temporary bool, err error)
	Logger *slog.Logger
}

// Door is the front door of a target's gateway. A nil Door is one of this machine that everybody may pass.
type Door struct {
	target    string
	listen    string
	mutual    bool // clients need certificates
	anonymous []Verb
	keys      *keys
	tokens    *tokens
	cert      *certificate

	stop    context.CancelFunc
	refresh sync.WaitGroup
}

// Open reads what a door needs: an error says what of it cannot be used.
func Open(ctx context.Context, opts Options) (*Door, error) { return open(ctx, opts, refreshEvery) }

func open(ctx context.Context, opts Options, every time.Duration) (*Door, error) {
	g := opts.Gateway
	log := opts.Logger.With("target", opts.Target)
	d := &Door{target: opts.Target, listen: g.Listen, mutual: g.TLS != nil && g.TLS.ClientCA != "", stop: func() {}}
	if err := safe(g); err != nil {
		return nil, fmt.Errorf("target %s: %w", opts.Target, err)
	}
	var err error
	if g.TLS != nil {
		if d.cert, err = readCertificate(*g.TLS, log); err != nil {
			return nil, fmt.Errorf("target %s: %w", opts.Target, err)
		}
	}
	if len(g.Keys) > 0 {
		if d.keys, err = readKeys(ctx, g.Keys, opts.Secret, log); err != nil {
			return nil, fmt.Errorf("target %s: %w", opts.Target, err)
		}
	}
	if len(g.JWT) > 0 {
		if d.tokens, err = newTokens(ctx, g.JWT, log); err != nil {
			return nil, fmt.Errorf("target %s: %w", opts.Target, err)
		}
	}
	switch {
	case d.keys != nil || d.tokens != nil: // nobody is anonymous
	case !d.mutual && spec.IsLoopback(g.Listen):
		d.anonymous = []Verb{Infer, Metrics, Admin}
	default:
		d.anonymous = []Verb{Infer, Metrics}
	}
	warn(g, log)
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	d.refresh.Go(func() { d.run(ctx, every) })
	return d, nil
}

// safe refuses addresses that others reach where nobody must prove who they are, unless the user says so.
func safe(g spec.TargetGateway) error {
	for _, address := range []string{g.Listen, g.MetricsListen} {
		if !spec.IsLoopback(address) && !g.Restricted() && !g.Open {
			return fault.Errorf(fault.Invalid,
				"everyone who reaches %s could ask it: give it `keys`, `jwt` or `tls: {client_ca: ...}`, or say `open: true` if that is meant", address)
		}
	}
	return nil
}

// warn tells at the start what others can do.
func warn(g spec.TargetGateway, log *slog.Logger) {
	switch {
	case spec.IsLoopback(g.Listen):
	case !g.Restricted():
		log.Warn("everyone who reaches the gateway's address may ask its model, without a key", "address", g.Listen)
	case g.TLS == nil:
		log.Warn("keys and tokens reach the gateway unencrypted unless a proxy in front of it has TLS; set `tls`", "address", g.Listen)
	}
}

// run reads keys again until the end of ctx.
func (d *Door) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if d.keys != nil {
			d.keys.refresh(ctx)
		}
		if d.tokens != nil {
			d.tokens.refresh(ctx)
		}
	}
}

// Close ends what reads keys again.
func (d *Door) Close() {
	if d == nil {
		return
	}
	d.stop()
	d.refresh.Wait()
}

// TLS is the configuration for listeners; nil for one without TLS.
func (d *Door) TLS() *tls.Config {
	if d == nil || d.cert == nil {
		return nil
	}
	return d.cert.server()
}

// sluiceKey is what the key of Sluice's own clients is called. No secret of an environment is.
const sluiceKey = "(sluice)"

// Caller is who asks.
type Caller struct {
	name    string
	allowed []Verb
	key     string
	subject string
}

// May reports whether the caller may do something.
func (c Caller) May(v Verb) bool { return slices.Contains(c.allowed, v) }

// String names the caller for messages; it is no secret.
func (c Caller) String() string { return c.name }

// Key names the caller's API key by its secret; empty for one without.
func (c Caller) Key() string { return c.key }

// Subject is that of the caller's token, which was verified; empty for one without.
func (c Caller) Subject() string { return c.subject }

type callerKey struct{}

// WithCaller returns a context that says who asks.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is who asks. One of whom nothing is known may do nothing.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Admit says who asks, as far as it is known, and whether they may: else the error is an oip.Error with status 401, 403 or 503. own is the key of Sluice's own
// clients, which may ask and send labels; while it is empty and there is no other way to know callers, all may send labels.
func (d *Door) Admit(r *http.Request, v Verb, own string) (Caller, error) {
	c, err := d.caller(r, own)
	switch {
	case err != nil:
		return Caller{}, err
	case c.May(v):
		return c, nil
	case d.Keyed():
		return c, refuse(http.StatusForbidden, "%s may not do this, for which it would have to allow `%s`", c, v)
	}
	return c, refuse(http.StatusForbidden, "no caller has this permission; allow `%s` in `keys` or `jwt` of the target", v)
}

func (d *Door) caller(r *http.Request, own string) (Caller, error) {
	bearer := bearerOf(r.Header)
	anonymous := d.everybody(own)
	if own != "" && same(bearer, own) {
		return Caller{name: "Sluice's own key", allowed: append([]Verb{Infer, Label}, anonymous...), key: sluiceKey}, nil
	}
	if d != nil && d.mutual && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return Caller{}, refuse(http.StatusUnauthorized, "the target %s demands a certificate of its clients: use one of the gateway's `client_ca`", d.target)
	}
	switch {
	case !d.Keyed():
		return Caller{name: "everyone", allowed: anonymous}, nil
	case bearer == "":
		return Caller{}, refuse(http.StatusUnauthorized, "the target %s demands a key: send the header `Authorization: Bearer KEY`", d.target)
	}
	if d.keys != nil {
		if c, ok := d.keys.find(bearer); ok {
			return c, nil
		}
	}
	if d.tokens != nil {
		return d.tokens.verify(r.Context(), bearer)
	}
	return Caller{}, refuse(http.StatusUnauthorized, "the key is not one of the target %s", d.target)
}

// Keyed reports whether callers need keys or tokens.
func (d *Door) Keyed() bool { return d != nil && (d.keys != nil || d.tokens != nil) }

// everybody is what those may do of whom nothing is known.
func (d *Door) everybody(own string) []Verb {
	all := []Verb{Infer, Metrics, Admin}
	if d != nil {
		all = slices.Clone(d.anonymous)
	}
	if own == "" && !d.Keyed() {
		all = append(all, Label)
	}
	return all
}

// Challenge is the header WWW-Authenticate of an answer with status 401 to a request.
func (d *Door) Challenge(r *http.Request) string {
	challenge := `Bearer realm="sluice"`
	if d != nil {
		challenge = fmt.Sprintf("Bearer realm=%q", d.target)
	}
	if bearerOf(r.Header) != "" {
		challenge += `, error="invalid_token"`
	}
	return challenge
}

// bearerOf is the key or token of a request.
func bearerOf(h http.Header) string {
	scheme, key, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// same compares in a time that depends on neither.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func refuse(status int, format string, args ...any) error {
	return &oip.Error{Status: status, Message: fmt.Sprintf(format, args...)}
}
