package secret

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

const (
	// serviceAccountToken is where Kubernetes puts the token of a pod's service account.
	serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	// requestLimit bounds one request, maxAnswer what is read of its answer.
	requestLimit = 10 * time.Second
	maxAnswer    = 1 << 20
	// tries bounds the requests for one answer; between two lies a pause that begins with firstPause and doubles.
	tries      = 4
	firstPause = 250 * time.Millisecond
)

// vault reads from Vault's HTTP API.
type vault struct {
	http  *http.Client
	jwt   string
	pause time.Duration

	mu     sync.Mutex
	tokens map[string]lease // by server and role
}

// lease is a token that a login gave, and until when it is taken without another.
type lease struct {
	token string
	until time.Time
}

// read returns the value that ref, mount/path#key, names.
func (v *vault) read(ctx context.Context, server spec.Vault, ref string) (string, error) {
	if server.Address == "" {
		server.Address, server.Namespace = os.Getenv("VAULT_ADDR"), os.Getenv("VAULT_NAMESPACE")
	}
	if server.Address == "" {
		return "", fail(ErrUnusable, "the environment has no `vault:` to read %s from, and VAULT_ADDR is not set for the worker: set one of them", ref)
	}
	endpoint, mount, path, key, err := locate(server, ref)
	if err != nil {
		return "", err
	}
	token, fresh, err := v.token(ctx, server)
	if err != nil {
		return "", err
	}
	a, err := v.ask(ctx, server, http.MethodGet, endpoint, token, nil)
	if errors.Is(err, ErrForbidden) && !fresh { // the token may have been revoked
		v.forget(server)
		if token, _, err = v.token(ctx, server); err != nil {
			return "", err
		}
		a, err = v.ask(ctx, server, http.MethodGet, endpoint, token, nil)
	}
	switch {
	case errors.Is(err, ErrForbidden):
		return "", fail(ErrForbidden, "%v\nhelp: the policy must allow `read` on %s/data/%s", err, mount, path)
	case errors.Is(err, ErrNotFound):
		return "", fail(ErrNotFound, "Vault at %s has nothing at %s/%s: it was never written, its last version was deleted, or %s is not a KV "+
			"engine of version 2", server.Address, mount, path, mount)
	case err != nil:
		return "", err
	}
	return pick(a, mount+"/"+path, key)
}

// locate takes a reference apart and returns the URL that its secret is read from. The mount is the part before the first slash.
func locate(server spec.Vault, ref string) (endpoint, mount, path, key string, err error) {
	where, key, _ := strings.Cut(ref, "#")
	mount, path, _ = strings.Cut(where, "/")
	parts := strings.Split(path, "/")
	if mount == "" || key == "" || slices.ContainsFunc(append(parts, mount), func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return "", "", "", "", fail(ErrUnusable, "%q is not a key in Vault: write mount/path#key, such as kv/ml/warehouse#dsn", ref)
	}
	endpoint, err = address(server, append([]string{mount, "data"}, parts...)...)
	return endpoint, mount, path, key, err
}

// address is the URL of a path of the API. Tokens travel in the clear over http, which is for this machine alone.
func address(server spec.Vault, parts ...string) (string, error) {
	u, err := url.Parse(server.Address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", fail(ErrUnusable, "vault address %q is not a URL: write it like https://vault.example.com:8200", server.Address)
	}
	if !SafeURL(u) {
		return "", fail(ErrUnusable, "vault address %s is not encrypted: use https to protect tokens and secrets", server.Address)
	}
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/") + "/v1/" + strings.Join(parts, "/"), nil
}

// SafeURL reports whether what is sent there cannot be read on the way: it goes by https, or to this machine.
func SafeURL(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}

// sameServer follows redirects within a server only: another one would get the token.
func sameServer(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) > 2 || req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// token returns a token for a server; fresh when it has not been used before.
func (v *vault) token(ctx context.Context, server spec.Vault) (token string, fresh bool, err error) {
	switch auth := server.Auth; {
	case auth.TokenFile != "":
		token, err = readFile(auth.TokenFile) // each time, since an agent of Vault's renews it there
		token = strings.TrimSpace(token)
		if err == nil && !isToken(token) {
			err = fail(ErrUnusable, "it contains no token")
		}
		if err != nil {
			err = fmt.Errorf("vault auth token_file %s: %w", auth.TokenFile, err)
		}
		return token, true, err
	case auth.Kubernetes != nil:
		v.mu.Lock()
		defer v.mu.Unlock() // one login for all that wait
		if l, ok := v.tokens[account(server)]; ok && time.Now().Before(l.until) {
			return l.token, false, nil
		}
		l, err := v.login(ctx, server)
		if err != nil {
			return "", false, fmt.Errorf("vault login as role %s: %w", auth.Kubernetes.Role, err)
		}
		v.tokens[account(server)] = l
		return l.token, true, nil
	}
	token, err = ownToken()
	return token, true, err
}

// ownToken is the token that Vault's own command would use.
func ownToken() (string, error) {
	token := os.Getenv("VAULT_TOKEN")
	if token == "" {
		if home, err := os.UserHomeDir(); err == nil {
			token, _ = readFile(filepath.Join(home, ".vault-token")) // without one there is no login
		}
	}
	if token = strings.TrimSpace(token); !isToken(token) {
		return "", fail(ErrUnusable, "vault has no auth: set token_file or kubernetes, or set VAULT_TOKEN or the file ~/.vault-token for the worker")
	}
	return token, nil
}

func (v *vault) forget(server spec.Vault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tokens, account(server))
}

// account tells logins apart.
func account(server spec.Vault) string {
	k := server.Auth.Kubernetes
	return strings.Join([]string{server.Address, server.Namespace, mountOf(k), k.Role}, "\x00")
}

func mountOf(k *spec.VaultKubernetes) string { return cmp.Or(k.Mount, "kubernetes") }

// isToken refuses what cannot be a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// login trades the pod's service account for a token.
func (v *vault) login(ctx context.Context, server spec.Vault) (lease, error) {
	jwt, err := readFile(v.jwt)
	if err != nil {
		return lease{}, fmt.Errorf("the service account of this pod: %w", err)
	}
	k := server.Auth.Kubernetes
	endpoint, err := address(server, append(append([]string{"auth"}, strings.Split(mountOf(k), "/")...), "login")...)
	if err != nil {
		return lease{}, err
	}
	body, err := json.Marshal(map[string]string{"role": k.Role, "jwt": strings.TrimSpace(jwt)})
	if err != nil {
		return lease{}, err
	}
	a, err := v.ask(ctx, server, http.MethodPost, endpoint, "", body)
	if err != nil {
		return lease{}, err
	}
	if !isToken(a.Auth.ClientToken) {
		return lease{}, fail(ErrUnavailable, "Vault at %s returned no token", server.Address)
	}
	// A part of its life is left for what is under way. A token without an end is asked for anew now and then.
	life := min(time.Duration(a.Auth.LeaseDuration)*time.Second*2/3, time.Hour)
	if a.Auth.LeaseDuration == 0 {
		life = time.Hour
	}
	return lease{token: a.Auth.ClientToken, until: time.Now().Add(life)}, nil
}

// answer is what is read of Vault's answers.
type answer struct {
	Data struct {
		Data map[string]json.RawMessage `json:"data"`
	} `json:"data"`
	Auth struct {
		ClientToken   string `json:"client_token"`
		LeaseDuration int    `json:"lease_duration"`
	} `json:"auth"`
	Errors []string `json:"errors"`
}

// ask makes a request, and again when it fails in a way that passes.
func (v *vault) ask(ctx context.Context, server spec.Vault, method, endpoint, token string, body []byte) (answer, error) {
	pause := v.pause
	for try := 1; ; try++ {
		a, again, err := v.once(ctx, server, method, endpoint, token, body)
		if err == nil || !again || try == tries {
			return a, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return a, err
		}
		pause *= 2
	}
}

func (v *vault) once(ctx context.Context, server spec.Vault, method, endpoint, token string, body []byte) (a answer, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, endpoint, bytes.NewReader(body))
	if err != nil {
		return a, false, fail(ErrUnusable, "vault address %s: %v", server.Address, err)
	}
	req.Header.Set("X-Vault-Request", "true") // servers can insist on it, against requests that were smuggled in
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	if server.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", server.Namespace)
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return a, true, fail(ErrUnavailable, "Vault at %s does not respond: %v", server.Address, unwrapped(err))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, true, fail(ErrUnavailable, "Vault at %s broke off its answer: %v", server.Address, err)
	}
	if to, err := resp.Location(); err == nil {
		return a, false, fail(ErrUnusable, "Vault at %s redirects to %s://%s, which Sluice does not follow, since that server would get the token: "+
			"set `address` to it, or let standbys forward requests", server.Address, to.Scheme, to.Host)
	}
	parseErr := json.Unmarshal(raw, &a)
	if resp.StatusCode != http.StatusOK {
		again, err = refused(server, resp.StatusCode, a.Errors)
		return a, again, err
	}
	if parseErr != nil {
		return a, false, fail(ErrUnavailable, "the server at %s is not Vault: its response is not JSON of at most 1 MiB", server.Address)
	}
	return a, false, nil
}

// refused turns a status into an error, and says whether to ask again.
func refused(server spec.Vault, status int, said []string) (again bool, err error) {
	reason := ErrUnavailable
	sealed := slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "sealed") })
	switch {
	case status == http.StatusNotFound:
		reason = ErrNotFound
	case status == http.StatusForbidden:
		reason = ErrForbidden
	case status == http.StatusServiceUnavailable && sealed:
		reason = ErrSealed
	case status == http.StatusTooManyRequests, status == http.StatusPreconditionFailed, status >= 500:
		again = true // too many requests, or a replica that lags behind
	case status >= 400:
		reason = ErrUnusable
	}
	text := fmt.Sprintf("Vault at %s answers %d", server.Address, status)
	if len(said) > 0 {
		text += fmt.Sprintf(": %.300s", strings.Join(strings.Fields(strings.Join(said, "; ")), " ")) // they come in lines
	}
	return again, fail(reason, "%s", text)
}

// unwrapped drops the request's URL, which the message names already.
func unwrapped(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// pick takes a key's value out of a secret. Numbers and booleans become their text.
func pick(a answer, path, key string) (string, error) {
	raw, ok := a.Data.Data[key]
	if !ok {
		return "", fail(ErrNotFound, "%s in Vault has no key %q; it has %.300s", path, key, strings.Join(slices.Sorted(maps.Keys(a.Data.Data)), ", "))
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && !bytes.Equal(raw, []byte("null")) {
		return text, nil
	}
	if c := raw[0]; c == '{' || c == '[' || c == 'n' {
		return "", fail(ErrUnusable, "the key %q of %s in Vault is not a string", key, path)
	}
	return string(raw), nil
}
