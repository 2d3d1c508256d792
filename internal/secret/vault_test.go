package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// fakeVault answers as Vault does, in so far as reading secrets is concerned: KV version 2 at kv/, tokens, and the Kubernetes login.
type fakeVault struct {
	*httptest.Server

	mu       sync.Mutex
	readers  map[string]bool // tokens that may read
	stumbles []int           // statuses of the next answers
	sealed   bool
	life     int // of the tokens it gives out, in seconds
	logins   int
	seen     []string // requests: method, path, namespace
}

func newFakeVault(t *testing.T) *fakeVault {
	t.Helper()
	v := &fakeVault{readers: map[string]bool{"reader": true}, life: 3600}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

func (v *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = append(v.seen, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("X-Vault-Namespace")))
	answer := func(status int, format string, args ...any) {
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
	switch {
	case r.Header.Get("X-Vault-Request") != "true":
		answer(400, `{"errors":["missing the request header"]}`)
	case v.sealed:
		answer(503, `{"errors":["Vault is sealed"]}`)
	case len(v.stumbles) > 0:
		status := v.stumbles[0]
		v.stumbles = v.stumbles[1:]
		answer(status, `{"errors":["stumbled"]}`)
	case r.URL.Path == "/v1/auth/kubernetes/login":
		v.login(r, answer)
	case !v.readers[r.Header.Get("X-Vault-Token")]:
		answer(403, `{"errors":["permission denied"]}`)
	case r.URL.Path == "/v1/kv/data/ml/warehouse":
		answer(200, `{"data":{"data":{"dsn":"postgres://secret","port":5432,"on":true,"map":{},"none":null},"metadata":{"version":3}}}`)
	case r.URL.Path == "/v1/kv/data/ml/deleted":
		answer(404, `{"data":{"data":null,"metadata":{"deletion_time":"2026-01-01T00:00:00Z","version":1}}}`)
	case r.URL.Path == "/v1/kv/data/ml/html":
		answer(200, `<html>`)
	default:
		answer(404, `{"errors":[]}`)
	}
}

func (v *fakeVault) login(r *http.Request, answer func(int, string, ...any)) {
	var in struct{ Role, JWT string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Role != "sluice" || in.JWT != "pod-jwt" {
		answer(403, `{"errors":["permission denied"]}`)
		return
	}
	v.logins++
	token := fmt.Sprintf("login-%d", v.logins)
	v.readers[token] = true
	answer(200, `{"auth":{"client_token":%q,"lease_duration":%d,"renewable":true}}`, token, v.life)
}

// resolver asks again without waiting long.
func resolver(t *testing.T) *Resolver {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // without a token of the person who tests
	r := NewResolver()
	r.vault.pause = time.Millisecond
	r.vault.jwt = file(t, "pod-jwt\n")
	return r
}

func byToken(t *testing.T, address, token string) spec.Vault {
	return spec.Vault{Address: address, Auth: spec.VaultAuth{TokenFile: file(t, token+"\n")}}
}

func byPod(address string) spec.Vault {
	return spec.Vault{Address: address, Auth: spec.VaultAuth{Kubernetes: &spec.VaultKubernetes{Role: "sluice"}}}
}

// fromVault reads one reference.
func fromVault(ctx context.Context, r *Resolver, server spec.Vault, ref string) (string, error) {
	return r.Value(ctx, &spec.Environment{Name: "test", Vault: server, Secrets: map[string]spec.SecretSource{"a": {Vault: ref}}}, "a")
}

func TestVault(t *testing.T) {
	v := newFakeVault(t)
	tests := []struct {
		name   string
		server spec.Vault
		ref    string
		want   string
		reason error
		says   string
	}{
		{name: "text", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse#dsn", want: "postgres://secret"},
		{name: "a number", server: byToken(t, v.URL+"/", "reader"), ref: "kv/ml/warehouse#port", want: "5432"},
		{name: "a bool", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse#on", want: "true"},
		{name: "by the pod's account", server: byPod(v.URL), ref: "kv/ml/warehouse#dsn", want: "postgres://secret"},
		{
			name: "an object", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse#map",
			reason: ErrUnusable, says: "is not a string",
		},
		{name: "null", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse#none", reason: ErrUnusable, says: "is not a string"},
		{
			name: "another key", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse#user",
			reason: ErrNotFound, says: `kv/ml/warehouse in Vault has no key "user"; it has dsn, map, none, on, port`,
		},
		{name: "nothing there", server: byToken(t, v.URL, "reader"), ref: "kv/ml/other#dsn", reason: ErrNotFound, says: "nothing at kv/ml/other"},
		{name: "deleted", server: byToken(t, v.URL, "reader"), ref: "kv/ml/deleted#dsn", reason: ErrNotFound, says: "last version was deleted"},
		{
			name: "another's token", server: byToken(t, v.URL, "stranger"), ref: "kv/ml/warehouse#dsn",
			reason: ErrForbidden, says: "permission denied\nhelp: the policy must allow `read` on kv/data/ml/warehouse",
		},
		{name: "no Vault", server: byToken(t, v.URL, "reader"), ref: "kv/ml/html#dsn", reason: ErrUnavailable, says: "is not Vault"},
		{
			name: "no token file", server: spec.Vault{Address: v.URL, Auth: spec.VaultAuth{TokenFile: "/does/not/exist"}}, ref: "kv/a#b",
			reason: ErrNotFound, says: "token_file /does/not/exist",
		},
		{name: "an empty token file", server: byToken(t, v.URL, " "), ref: "kv/a#b", reason: ErrUnusable, says: "no token"},
		{name: "no auth", server: spec.Vault{Address: v.URL}, ref: "kv/a#b", reason: ErrUnusable, says: "token_file or kubernetes"},
		{name: "no key", server: byToken(t, v.URL, "reader"), ref: "kv/ml/warehouse", reason: ErrUnusable, says: "mount/path#key"},
		{name: "no path", server: byToken(t, v.URL, "reader"), ref: "kv#dsn", reason: ErrUnusable, says: "mount/path#key"},
		{name: "a way out", server: byToken(t, v.URL, "reader"), ref: "kv/../sys#dsn", reason: ErrUnusable, says: "mount/path#key"},
		{name: "no URL", server: byToken(t, "vault:8200", "reader"), ref: "kv/a#b", reason: ErrUnusable, says: "is not a URL"},
		{name: "in the clear", server: byToken(t, "http://192.0.2.1:8200", "reader"), ref: "kv/a#b", reason: ErrUnusable, says: "use https"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := fromVault(t.Context(), resolver(t), tt.server, tt.ref)
			if got != tt.want || !errors.Is(err, tt.reason) {
				t.Fatalf("got %q, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %q, not %q", err, tt.says)
			}
		})
	}
}

// An environment that does not say where Vault is reads from where Vault's own command would.
func TestVaultOfTheMachine(t *testing.T) {
	v := newFakeVault(t)
	r := resolver(t)
	t.Setenv("VAULT_ADDR", v.URL)
	read := func() (string, error) { return fromVault(t.Context(), r, spec.Vault{}, "kv/ml/warehouse#dsn") }
	if _, err := read(); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "VAULT_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".vault-token"), []byte("reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAULT_NAMESPACE", "team/ml")
	if got, err := read(); got != "postgres://secret" || err != nil || v.seen[len(v.seen)-1] != "GET /v1/kv/data/ml/warehouse team/ml" {
		t.Errorf("with ~/.vault-token: %q, %v, by %s", got, err, v.seen[len(v.seen)-1])
	}
	t.Setenv("VAULT_TOKEN", "stranger")
	if _, err := read(); !errors.Is(err, ErrForbidden) {
		t.Errorf("with another's VAULT_TOKEN: %v", err)
	}
}

// Vault Agent renews the token in its file.
func TestVaultTokenIsReadAnew(t *testing.T) {
	v, r := newFakeVault(t), resolver(t)
	server := byToken(t, v.URL, "reader")
	if _, err := fromVault(t.Context(), r, server, "kv/ml/warehouse#dsn"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server.Auth.TokenFile, []byte("stranger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fromVault(t.Context(), r, server, "kv/ml/warehouse#dsn"); !errors.Is(err, ErrForbidden) {
		t.Errorf("with another token in the file: %v", err)
	}
}

func TestVaultTriesAgain(t *testing.T) {
	tests := []struct {
		name      string
		stumbles  []int
		sealed    bool
		requests  int
		reason    error
		temporary bool
	}{
		{name: "after some failures", stumbles: []int{500, 502, 429}, requests: 4},
		{name: "not for ever", stumbles: []int{500, 502, 503, 500, 500}, requests: 4, reason: ErrUnavailable, temporary: true},
		{name: "not what stays wrong", stumbles: []int{400}, requests: 1, reason: ErrUnusable},
		{name: "not a sealed one", sealed: true, requests: 1, reason: ErrSealed, temporary: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newFakeVault(t)
			v.stumbles, v.sealed = tt.stumbles, tt.sealed
			_, err := fromVault(t.Context(), resolver(t), byToken(t, v.URL, "reader"), "kv/ml/warehouse#dsn")
			if !errors.Is(err, tt.reason) || len(v.seen) != tt.requests {
				t.Errorf("%d requests, then %v", len(v.seen), err)
			}
			wantType := map[bool]string{true: fault.Infrastructure, false: fault.Invalid}[tt.temporary]
			if got := fault.TypeOf(Typed(err)); Temporary(err) != tt.temporary || err != nil && got != wantType {
				t.Errorf("temporary is %v for %v, which is %s", Temporary(err), err, got)
			}
		})
	}
}

// TestVaultGone: a server that is not there, and one that never answers.
func TestVaultGone(t *testing.T) {
	v := newFakeVault(t)
	address := v.URL
	v.Close()
	if _, err := fromVault(t.Context(), resolver(t), byToken(t, address, "reader"), "kv/a#b"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fromVault(ctx, resolver(t), byToken(t, silent.URL, "reader"), "kv/a#b"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without an answer: %v", err)
	}
}

// TestVaultLogin: one login serves many reads, a revoked token is replaced once, and a role that is refused stays refused.
func TestVaultLogin(t *testing.T) {
	v, r := newFakeVault(t), resolver(t)
	server := byPod(v.URL)
	server.Namespace = "team/ml"
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := fromVault(t.Context(), r, server, "kv/ml/warehouse#dsn"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if v.logins != 1 {
		t.Errorf("%d logins for eight reads", v.logins)
	}
	if diff := cmp.Diff([]string{"POST /v1/auth/kubernetes/login team/ml", "GET /v1/kv/data/ml/warehouse team/ml"}, v.seen[:2]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	delete(v.readers, "login-1")
	if _, err := fromVault(t.Context(), r, server, "kv/ml/warehouse#dsn"); err != nil || v.logins != 2 {
		t.Errorf("with a revoked token: %v after %d logins", err, v.logins)
	}
	server.Auth.Kubernetes.Role = "other"
	if _, err := fromVault(t.Context(), r, server, "kv/ml/warehouse#dsn"); !errors.Is(err, ErrForbidden) ||
		!strings.Contains(err.Error(), "login as role other") {
		t.Errorf("as another role: %v", err)
	}
}

// TestVaultLease: a token is not used up to the end of its life, and one that lives long is asked for anew.
func TestVaultLease(t *testing.T) {
	v, r := newFakeVault(t), resolver(t)
	for life, want := range map[int]time.Duration{3600: 40 * time.Minute, 24 * 3600: time.Hour, 0: time.Hour} {
		v.life = life
		before := time.Now()
		l, err := r.vault.login(t.Context(), byPod(v.URL))
		if err != nil || l.until.Before(before.Add(want)) || l.until.After(time.Now().Add(want)) {
			t.Errorf("a token of %d s is kept for %v, %v, want %v", life, l.until.Sub(before), err, want)
		}
	}
}

// TestVaultRedirect: a redirect to another path of the server is followed, one to another server or from https to http is not.
func TestVaultRedirect(t *testing.T) {
	v := newFakeVault(t)
	server, err := url.Parse(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(server)
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, isOld := strings.CutPrefix(r.URL.Path, "/old"); isOld {
			http.Redirect(w, r, path, http.StatusTemporaryRedirect)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer moved.Close()
	got, err := fromVault(t.Context(), resolver(t), byToken(t, moved.URL+"/old", "reader"), "kv/ml/warehouse#dsn")
	if err != nil || got != "postgres://secret" {
		t.Errorf("to another path: %q, %v", got, err)
	}
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, v.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	plain, encrypted := httptest.NewServer(elsewhere), httptest.NewTLSServer(elsewhere)
	defer plain.Close()
	defer encrypted.Close()
	for _, server := range []*httptest.Server{plain, encrypted} {
		r, before := resolver(t), len(v.seen)
		r.vault.http.Transport = server.Client().Transport
		_, err := fromVault(t.Context(), r, byToken(t, server.URL, "reader"), "kv/ml/warehouse#dsn")
		if len(v.seen) != before || err == nil || !strings.Contains(err.Error(), "redirects to "+v.URL+", which Sluice does not follow") {
			t.Errorf("from %s: %v, %d requests came through", server.URL, err, len(v.seen)-before)
		}
	}
}

// podJWT has the form of a service account's token. That it is genuine is the cluster's word.
var podJWT = strings.Join([]string{
	base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)),
	base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"kubernetes/serviceaccount","sub":"system:serviceaccount:ml:sluice",` +
		`"kubernetes.io/serviceaccount/namespace":"ml","kubernetes.io/serviceaccount/secret.name":"sluice-token",` +
		`"kubernetes.io/serviceaccount/service-account.name":"sluice","kubernetes.io/serviceaccount/service-account.uid":"1234"}`)),
	base64.RawURLEncoding.EncodeToString([]byte("signed")),
}, ".")

// TestRealVault reads from the Vault, or OpenBao, at $SLUICE_TEST_VAULT with the root token $SLUICE_TEST_VAULT_TOKEN; it mounts an
// engine of its own there. It shows that the fake above answers as a real one does.
func TestRealVault(t *testing.T) {
	address, root := os.Getenv("SLUICE_TEST_VAULT"), os.Getenv("SLUICE_TEST_VAULT_TOKEN")
	if address == "" {
		t.Skip("SLUICE_TEST_VAULT names no server")
	}
	do := func(method, path string, body any) answer {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, address+"/v1/"+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Vault-Token", root)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, said, err)
		}
		var a answer
		_ = json.Unmarshal(said, &a) // many answers are empty
		return a
	}
	// The server reviews pods' tokens with the cluster, played here.
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":`+
			`{"username":"system:serviceaccount:ml:sluice","uid":"1234","groups":["system:serviceaccounts"]}}}`)
	}))
	defer cluster.Close()
	mount := fmt.Sprintf("sluice%d", time.Now().UnixNano())
	do("POST", "sys/mounts/"+mount, map[string]any{"type": "kv", "options": map[string]string{"version": "2"}})
	defer do("DELETE", "sys/mounts/"+mount, nil)
	do("POST", mount+"/data/ml/warehouse", map[string]any{"data": map[string]any{"dsn": "postgres://secret", "port": 5432, "on": true, "map": map[string]any{}}})
	do("POST", mount+"/data/ml/deleted", map[string]any{"data": map[string]any{"dsn": "gone"}})
	do("DELETE", mount+"/data/ml/deleted", nil)
	do("POST", "sys/policies/acl/"+mount, map[string]any{"policy": fmt.Sprintf("path %q { capabilities = [\"read\"] }", mount+"/data/ml/*")})
	reader := do("POST", "auth/token/create", map[string]any{"policies": []string{mount}}).Auth.ClientToken
	stranger := do("POST", "auth/token/create", map[string]any{"policies": []string{"default"}}).Auth.ClientToken

	do("POST", "sys/auth/"+mount, map[string]any{"type": "kubernetes"})
	defer do("DELETE", "sys/auth/"+mount, nil)
	do("POST", "auth/"+mount+"/config", map[string]any{
		"kubernetes_host": cluster.URL, "disable_local_ca_jwt": true, "token_reviewer_jwt": podJWT,
		"kubernetes_ca_cert": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})),
	})
	do("POST", "auth/"+mount+"/role/sluice", map[string]any{
		"bound_service_account_names": "sluice", "bound_service_account_namespaces": "ml", "policies": mount, "ttl": "1h",
	})
	pod := byPod(address)
	pod.Auth.Kubernetes.Mount = mount
	wrong := byPod(address)
	wrong.Auth.Kubernetes = &spec.VaultKubernetes{Role: "other", Mount: mount}

	tests := []struct {
		name   string
		server spec.Vault
		ref    string
		want   string
		reason error
	}{
		{"text", byToken(t, address, reader), "/ml/warehouse#dsn", "postgres://secret", nil},
		{"a number", byToken(t, address, reader), "/ml/warehouse#port", "5432", nil},
		{"a bool", byToken(t, address, reader), "/ml/warehouse#on", "true", nil},
		{"an object", byToken(t, address, reader), "/ml/warehouse#map", "", ErrUnusable},
		{"another key", byToken(t, address, reader), "/ml/warehouse#user", "", ErrNotFound},
		{"nothing there", byToken(t, address, reader), "/ml/other#dsn", "", ErrNotFound},
		{"deleted", byToken(t, address, reader), "/ml/deleted#dsn", "", ErrNotFound},
		{"no right to", byToken(t, address, stranger), "/ml/warehouse#dsn", "", ErrForbidden},
		{"no token of the server's", byToken(t, address, "nonsense"), "/ml/warehouse#dsn", "", ErrForbidden},
		{"by the pod's account", pod, "/ml/warehouse#dsn", "postgres://secret", nil},
		{"as a role that is not there", wrong, "/ml/warehouse#dsn", "", ErrUnusable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := resolver(t)
			r.vault.jwt = file(t, podJWT)
			got, err := fromVault(t.Context(), r, tt.server, mount+tt.ref)
			if got != tt.want || !errors.Is(err, tt.reason) {
				t.Errorf("got %q, %v", got, err)
			}
			t.Log(err)
		})
	}
}
