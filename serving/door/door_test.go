package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/door/doortest"
	"github.com/sluiceml/sluice/serving/oip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a door with secrets that a test can change, and what it logs.
type rig struct {
	mu        sync.Mutex
	secrets   map[string]string
	temporary bool // what is missing comes again
	log       bytes.Buffer
}

func (r *rig) set(secrets map[string]string, temporary bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets, r.temporary = secrets, temporary
}

func (r *rig) secret(_ context.Context, name string) (string, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.secrets[name]; ok {
		return value, false, nil
	}
	return "", r.temporary, errors.New("secret " + name + ": it is not there")
}

// Write takes what is logged.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *rig) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func (r *rig) open(t *testing.T, g spec.TargetGateway, every time.Duration) *Door {
	t.Helper()
	d, err := open(t.Context(), Options{Target: "shop", Gateway: g, Secret: r.secret, Logger: slog.New(slog.NewTextHandler(r, nil))}, every)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// ask asks a door for a verb with a key or token, and returns the status that the request would get, and why.
func ask(d *Door, v Verb, bearer string) (status int, why string) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if _, err := d.Admit(r, v, ownKey); err != nil {
		return oip.ErrorStatus(err), err.Error()
	}
	return http.StatusOK, ""
}

const (
	ownKey   = "the-key-of-sluice-itself"
	webKey   = "the-key-of-the-web-shop"
	labelKey = "the-key-of-those-who-label"
	opsKey   = "the-key-of-operations"
)

func TestVerbs(t *testing.T) {
	signer := doortest.NewSigner(t, "1")
	jwks := t.TempDir() + "/jwks.json"
	doortest.Write(t, jwks, doortest.KeySet(t, signer))
	issuer := spec.GatewayJWT{Issuer: "https://issuer.test", Audience: "shop", JWKS: jwks}
	infers, labels, metrics := issuer, issuer, issuer
	metrics.Allow, metrics.Claims = []string{"metrics"}, map[string]string{"name": "ops"}
	infers.Allow = []string{"infer"}
	labels.Allow, labels.Claims = []string{"label"}, map[string]string{"scope": "models.label"}
	r := &rig{secrets: map[string]string{"web": webKey, "labels": labelKey, "ops": opsKey}}
	keyed := r.open(t, spec.TargetGateway{
		Listen: "0.0.0.0",
		Keys: []spec.GatewayKey{
			{Secret: "web", Allow: []string{"infer"}}, {Secret: "labels", Allow: []string{"infer", "label"}}, {Secret: "ops", Allow: []string{"metrics", "admin"}},
		},
		JWT: []spec.GatewayJWT{infers, labels, metrics},
	}, time.Hour)
	open, loopback := r.open(t, spec.TargetGateway{Listen: "0.0.0.0", Open: true}, time.Hour), r.open(t, spec.TargetGateway{}, time.Hour)
	token := func(scope any) string { return signer.Token(t, doortest.Claims(map[string]any{"scope": scope})) }
	for _, tc := range []struct {
		name   string
		door   *Door
		bearer string
		want   map[Verb]int
	}{
		{"nobody", keyed, "", map[Verb]int{Infer: 401, Label: 401, Metrics: 401, Admin: 401}},
		{"a wrong key", keyed, "x", map[Verb]int{Infer: 401, Label: 401, Metrics: 401, Admin: 401}},
		{"a beginning of a key", keyed, webKey[:len(webKey)-1], map[Verb]int{Infer: 401}},
		{"a key", keyed, webKey, map[Verb]int{Infer: 200, Label: 403, Metrics: 403, Admin: 403}},
		{"a key for labels", keyed, labelKey, map[Verb]int{Infer: 200, Label: 200, Metrics: 403, Admin: 403}},
		{"a key for operations", keyed, opsKey, map[Verb]int{Infer: 403, Label: 403, Metrics: 200, Admin: 200}},
		{"Sluice itself", keyed, ownKey, map[Verb]int{Infer: 200, Label: 200, Metrics: 403, Admin: 403}},
		{"a token", keyed, token(nil), map[Verb]int{Infer: 200, Label: 403, Metrics: 403, Admin: 403}},
		{"a token with the scope", keyed, token("openid models.label"), map[Verb]int{Infer: 200, Label: 200, Metrics: 403}},
		{"a token with the scope in a list", keyed, token([]string{"models.label"}), map[Verb]int{Infer: 200, Label: 200}},
		{"a token with another scope", keyed, token("models.labels"), map[Verb]int{Infer: 200, Label: 403}},
		{"a token whose name has the word", keyed, signer.Token(t, doortest.Claims(map[string]any{"name": "Eve ops"})), map[Verb]int{Infer: 200, Metrics: 403}},
		{"a token with the name", keyed, signer.Token(t, doortest.Claims(map[string]any{"name": "ops"})), map[Verb]int{Infer: 200, Label: 403, Metrics: 200}},
		{"a token with a number for a scope", keyed, token(7), map[Verb]int{Infer: 200, Label: 403}},
		{"everybody, where it is open", open, "", map[Verb]int{Infer: 200, Label: 403, Metrics: 200, Admin: 403}},
		{"with a key that nobody asked for", open, webKey, map[Verb]int{Infer: 200, Label: 403, Admin: 403}},
		{"Sluice itself, where it is open", open, ownKey, map[Verb]int{Infer: 200, Label: 200, Metrics: 200, Admin: 403}},
		{"everybody on loopback", loopback, "", map[Verb]int{Infer: 200, Label: 403, Metrics: 200, Admin: 200}},
		{"without a door", nil, "", map[Verb]int{Infer: 200, Label: 403, Metrics: 200, Admin: 200}},
	} {
		for verb, want := range tc.want {
			if got, why := ask(tc.door, verb, tc.bearer); got != want {
				t.Errorf("%s, %s: %d %s, want %d", tc.name, verb, got, why, want)
			}
		}
	}
	keyed.Close()
	for _, value := range []string{webKey, labelKey, opsKey, ownKey} {
		if dump := fmt.Sprintf("%s %+v", r.logged(), *keyed.keys.known.Load()); strings.Contains(dump, value) {
			t.Errorf("the key %q is in the log or kept: %s", value, dump)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	r := &rig{secrets: map[string]string{"short": "0123456789abcde", "web": webKey}}
	infer := []string{"infer"}
	dir := t.TempDir()
	doortest.Write(t, dir+"/symmetric.json", []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0","kid":"1"}]}`))
	doortest.Write(t, dir+"/text", []byte(`hello`))
	token := func(jwks string) []spec.GatewayJWT {
		return []spec.GatewayJWT{{Issuer: "i", Audience: "a", JWKS: jwks, Allow: infer}}
	}
	for _, tc := range []struct {
		name string
		g    spec.TargetGateway
		says string
	}{
		{"everybody may ask", spec.TargetGateway{Listen: "0.0.0.0"}, "say `open: true`"},
		{"everybody may read the metrics", spec.TargetGateway{MetricsListen: "10.0.0.1"}, "say `open: true`"},
		{"a key that is not there", spec.TargetGateway{Keys: []spec.GatewayKey{{Secret: "gone", Allow: infer}}}, "it is not there"},
		{"a short key", spec.TargetGateway{Keys: []spec.GatewayKey{{Secret: "short", Allow: infer}}}, "has 15 bytes; an API key must have at least 16"},
		{"no certificate", spec.TargetGateway{TLS: &spec.GatewayTLS{Certificate: dir + "/none", Key: dir + "/none"}}, dir + "/none: no such file"},
		{"a text for a certificate", spec.TargetGateway{TLS: &spec.GatewayTLS{Certificate: dir + "/text", Key: dir + "/text"}}, dir + "/text"},
		{"symmetric keys", spec.TargetGateway{JWT: token(dir + "/symmetric.json")}, "no public key for RS256, ES256 or EdDSA"},
		{"a text for keys", spec.TargetGateway{JWT: token(dir + "/text")}, "not a JSON Web Key Set"},
		{"keys over http", spec.TargetGateway{JWT: token("http://issuer.example.com/keys")}, "not an https URL"},
		{"keys at a relative path", spec.TargetGateway{JWT: token("keys.json")}, "not absolute"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := Open(t.Context(), Options{Target: "shop", Gateway: tc.g, Secret: r.secret, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "target shop") {
				t.Errorf("got %v, want an error with %q", err, tc.says)
			}
			if tc.name != "a key that is not there" && fault.TypeOf(err) != fault.Invalid {
				t.Errorf("its type is %s", fault.TypeOf(err))
			}
		})
	}
}

// TestCheck: it says all that would keep a door closed, and asks nobody for keys.
func TestCheck(t *testing.T) {
	r := &rig{secrets: map[string]string{"short": "0123456789abcde", "web": webKey}}
	dir := t.TempDir()
	var g spec.TargetGateway
	g.TLS = &spec.GatewayTLS{Certificate: dir + "/tls.crt", Key: dir + "/tls.key"}
	for _, name := range []string{"short", "web", "gone"} {
		g.Keys = append(g.Keys, spec.GatewayKey{Secret: name, Allow: []string{"infer"}})
	}
	for _, jwks := range []string{dir + "/keys.json", dir + "/keys.json", "https://127.0.0.1:1/keys"} {
		g.JWT = append(g.JWT, spec.GatewayJWT{Issuer: "i", Audience: "a", JWKS: jwks, Allow: []string{"infer"}})
	}
	var got []string
	for _, err := range Check(t.Context(), Options{Target: "shop", Gateway: g, Secret: r.secret}) {
		says, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), dir, ""), "\n")
		got = append(got, says)
	}
	want := []string{
		"tls: open /tls.crt: no such file or directory; open /tls.key: no such file or directory",
		"an API key: secret short: its value has 15 bytes; an API key must have at least 16",
		"an API key: secret gone: it is not there",
		"jwks: open /keys.json: no such file or directory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	ca := doortest.NewCA(t)
	files := ca.Files(t, "shop.example.com")
	doortest.Write(t, dir+"/keys.json", doortest.KeySet(t, doortest.NewSigner(t, "1")))
	g.TLS, g.Keys = &files, g.Keys[1:2]
	if errs := Check(t.Context(), Options{Target: "shop", Gateway: g, Secret: r.secret}); len(errs) > 0 {
		t.Errorf("a door that can be opened: %v", errs)
	}
}

func TestWhatIsToldAtTheStart(t *testing.T) {
	for _, tc := range []struct {
		g    spec.TargetGateway
		says string
	}{
		{spec.TargetGateway{Listen: "0.0.0.0", Open: true}, "without a key"},
		{spec.TargetGateway{Listen: "10.0.0.1", Keys: []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}}, "unencrypted"},
		{spec.TargetGateway{Keys: []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}}, ""},
	} {
		r := &rig{secrets: map[string]string{"web": webKey}}
		r.open(t, tc.g, time.Hour).Close()
		if said := r.logged(); !strings.Contains(said, tc.says) || (tc.says == "") != (said == "") {
			t.Errorf("%+v: %q, want %q in it", tc.g, said, tc.says)
		}
	}
}

func TestKeysChange(t *testing.T) {
	r := &rig{secrets: map[string]string{"web": webKey}}
	d := r.open(t, spec.TargetGateway{Keys: []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}}, 5*time.Millisecond)
	becomes := func(bearer string, want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for got := 0; got != want; got, _ = ask(d, Infer, bearer) {
			select {
			case <-ctx.Done():
				t.Fatalf("%d, want %d", got, want)
			case <-time.After(time.Millisecond):
			}
		}
	}
	becomes(webKey, 200)
	r.set(map[string]string{"web": opsKey}, false)
	becomes(opsKey, 200)
	becomes(webKey, 401)
	r.set(nil, true) // Vault is away
	d.keys.refresh(t.Context())
	becomes(opsKey, 200)
	r.set(nil, false) // somebody has removed it
	becomes(opsKey, 401)
	becomes("", 401)
	r.set(map[string]string{"web": webKey}, false)
	becomes(webKey, 200)
}

// handshake connects to a listener of a door, and returns the names in the certificate it sees.
func handshake(t *testing.T, at string, config *tls.Config) ([]string, error) {
	t.Helper()
	config = config.Clone()
	config.ServerName = "shop.test"
	conn, err := (&tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: 10 * time.Second}}).DialContext(t.Context(), "tcp", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// A server that refuses a client's certificate says so after the handshake.
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return nil, err
	}
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames, nil
}

// listener greets who connects.
func listener(t *testing.T, d *Door) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", d.TLS())
	if err != nil {
		t.Fatal(err)
	}
	var greeting sync.WaitGroup
	greeting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("!")) // what the client sees is what is tested
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		greeting.Wait()
	})
	return l.Addr().String()
}

func TestCertificates(t *testing.T) {
	ca := doortest.NewCA(t)
	files := ca.Files(t, "shop.test", "first.test")
	r := &rig{}
	d := r.open(t, spec.TargetGateway{TLS: &files}, time.Hour)
	at := listener(t, d)
	look := func() {
		d.cert.mu.Lock()
		defer d.cert.mu.Unlock()
		d.cert.looked = time.Time{}
	}
	sees := func(want string) {
		t.Helper()
		if names, err := handshake(t, at, &tls.Config{RootCAs: ca.Pool()}); err != nil || len(names) != 2 || names[1] != want {
			t.Errorf("certificate for %v: %v, want %s", names, err, want)
		}
	}
	sees("first.test")
	if _, err := handshake(t, at, &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("a client of TLS 1.1 was let in")
	}
	cert, key := ca.Issue(t, "shop.test", "second.test")
	doortest.Write(t, files.Certificate, cert) // and not yet its key
	look()
	sees("first.test")
	doortest.Write(t, files.Key, key)
	look()
	sees("second.test")
	if !strings.Contains(r.logged(), "the renewed certificate cannot be used") {
		t.Errorf("log: %s", r.logged())
	}
}

func TestClientCertificates(t *testing.T) {
	ca, clients, others := doortest.NewCA(t), doortest.NewCA(t), doortest.NewCA(t)
	files := ca.Files(t, "shop.test")
	files.ClientCA = t.TempDir() + "/ca.crt"
	doortest.Write(t, files.ClientCA, clients.PEM())
	r := &rig{secrets: map[string]string{"web": webKey}}
	d := r.open(t, spec.TargetGateway{Listen: "0.0.0.0", TLS: &files}, time.Hour)
	keyed := r.open(t, spec.TargetGateway{Listen: "0.0.0.0", TLS: &files, Keys: []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}}, time.Hour)
	at := listener(t, d)
	for name, tc := range map[string]struct {
		certificates []tls.Certificate
		isIn         bool
	}{
		"none, for health checks":  {nil, true},
		"of the authority":         {[]tls.Certificate{clients.Pair(t)}, true},
		"of the gateway's own one": {[]tls.Certificate{others.Pair(t)}, false},
	} {
		get := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(tc.certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &tc.certificates[0], nil
		}
		if _, err := handshake(t, at, &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: get}); (err == nil) != tc.isIn {
			t.Errorf("a certificate %s: %v", name, err)
		}
	}
	for _, tc := range []struct {
		door   *Door
		proven bool
		bearer string
		verb   Verb
		status int
	}{
		{d, false, "", Infer, 401},
		{d, true, "", Infer, 200},
		{d, true, "", Admin, 403},
		{d, true, "", Label, 403},
		{d, false, ownKey, Infer, 200},
		{keyed, false, webKey, Infer, 401},
		{keyed, true, "", Infer, 401},
		{keyed, true, webKey, Infer, 200},
		{keyed, true, webKey, Label, 403},
	} {
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.TLS = &tls.ConnectionState{}
		if tc.proven {
			req.TLS.VerifiedChains = [][]*x509.Certificate{{{}}}
		}
		if tc.bearer != "" {
			req.Header.Set("Authorization", "bearer "+tc.bearer)
		}
		status := http.StatusOK
		if _, err := tc.door.Admit(req, tc.verb, ownKey); err != nil {
			status = oip.ErrorStatus(err)
		}
		if status != tc.status {
			t.Errorf("with keys %v, certificate %v, bearer %q, %s: %d, want %d", tc.door == keyed, tc.proven, tc.bearer, tc.verb, status, tc.status)
		}
	}
}
