package upstream

import (
	"net"
	"net/http"
	"time"
)

const (
	connectTimeout = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxIdle        = 256     // connections that are kept
	maxHeader      = 1 << 20 // bytes of the header of an answer
)

// NewClient is a client of a model's server. Answers are as the server sends them: compressed ones stay so, and redirects are answers, because
// following one would repeat requests elsewhere than the user said.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
