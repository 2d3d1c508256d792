package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/secret"
)

const (
	// SignatureHeader holds the time of sending and the body's signature: t=<Unix seconds>,v1=<hex>.
	SignatureHeader = "Sluice-Signature"
	// requestLimit bounds one request, maxAnswer what is read of its answer, shownAnswer what an error shows of it.
	requestLimit = 15 * time.Second
	maxAnswer    = 64 << 10
	shownAnswer  = 200
	// maxAfter bounds how long another side can have us wait.
	maxAfter = 10 * time.Minute
)

// client follows no redirects: a message goes where it was addressed, or nowhere.
var client = &http.Client{
	Transport:     http.DefaultTransport,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Webhook posts a message to an address, signed with key when there is one.
func Webhook(ctx context.Context, address, key string, m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return permanent("encode the message: %v", err)
	}
	header := http.Header{}
	if key != "" {
		header.Set(SignatureHeader, Sign(key, time.Now(), body))
	}
	return post(ctx, address, body, header, key)
}

// Slack posts a message to an incoming webhook of Slack's form.
func Slack(ctx context.Context, address string, m Message) error {
	body, err := m.slack()
	if err != nil {
		return permanent("encode the message: %v", err)
	}
	return post(ctx, address, body, nil)
}

// Sign returns the value of SignatureHeader: HMAC-SHA256 with key over "<Unix seconds>.<body>".
func Sign(key string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// post sends a body. Its errors do not name the address, which may be a secret, and what others say is masked in them: pages of errors
// repeat the path that was asked for. secrets are masked, too.
func post(ctx context.Context, address string, body []byte, header http.Header, secrets ...string) error {
	to, err := url.Parse(address)
	switch {
	case err != nil || to.Host == "" || (to.Scheme != "https" && to.Scheme != "http"):
		return permanent("the address is not an http or https URL")
	case !secret.SafeURL(to):
		return permanent("the address is not encrypted: use https; http is only allowed on this machine")
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return permanent("the address cannot be used")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sluice")
	mask := secret.NewMask(append(secret.URLParts(address), append(secrets, address)...)...)
	resp, err := client.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the address
		}
		return temporary("%s does not respond: %s", to.Host, mask.Text(err.Error()))
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status says it all
	return answerError(to.Host, resp, said, mask)
}

// answerError turns an answer into an error, or none.
func answerError(host string, resp *http.Response, said []byte, mask *secret.Mask) error {
	text := fmt.Sprintf("%s answers %s", host, mask.Text(resp.Status))
	all := mask.Text(string(said)) // before it is cut: a part of a secret would not be recognized
	if shown := strings.TrimSpace(all[:min(len(all), shownAnswer)]); shown != "" {
		text += ": " + strings.ToValidUTF8(shown, "")
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return permanent("%s, and redirects are not followed: use the address that it redirects to", text)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return &Error{Text: text, After: retryAfter(resp.Header.Get("Retry-After"))}
	}
	return permanent("%s", text)
}

// retryAfter is the pause that another side wants, in seconds or until a date, at most maxAfter, which is also what one that cannot be
// read is taken for; 0, for the usual pause, where there is none.
func retryAfter(given string) time.Duration {
	given = strings.TrimSpace(given)
	if given == "" || strings.HasPrefix(given, "-") {
		return 0
	}
	if at, err := http.ParseTime(given); err == nil {
		return min(max(0, time.Until(at)), maxAfter)
	}
	seconds, err := strconv.Atoi(given)
	if err != nil {
		return maxAfter
	}
	return time.Duration(min(seconds, int(maxAfter/time.Second))) * time.Second
}
