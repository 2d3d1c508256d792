package s3test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bare adds nothing to a request.
var bare = &http.Transport{DisableCompression: true}

func ask(t *testing.T, method, url string, body io.Reader, header http.Header) (answer http.Header, content string, err error) {
	t.Helper()
	defer bare.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Header = "acme.example.com", header
	resp, err := bare.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.Header, string(raw), err
}

// TestStart: a server has its bucket and its clock, with or without something before it, and ends with its test.
func TestStart(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	same := func(inner http.Handler) http.Handler { return inner }
	for name, o := range map[string]Options{"plain": {Time: at}, "around": {Time: at, Around: same}} {
		var url string
		t.Run(name, func(t *testing.T) {
			s := Start(t, "acme", o)
			s.Put(t, "a/b", "content")
			url = s.URL + "/acme/a/b"
			answer, got, err := ask(t, http.MethodGet, url, nil, http.Header{})
			if err != nil {
				t.Fatal(err)
			}
			if modified := answer.Get("Last-Modified"); got != "content" || modified != at.Format(http.TimeFormat) {
				t.Errorf("got %q of %s, want that of %s", got, modified, at)
			}
		})
		if _, _, err := ask(t, http.MethodGet, url, nil, http.Header{}); err == nil {
			t.Errorf("%s: the server outlives its test", name)
		}
	}
}

// TestFront: what stands before a server changes nothing in a request, and breaks the connection where the server does.
func TestFront(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%s %s of %s\n%v\n%d %v\n%s, %v", r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, r.TransferEncoding, body, err)
	}))
	defer server.Close()
	front := front(t, server.URL, func(inner http.Handler) http.Handler { return inner })
	for name, send := range map[string]func(address string) (http.Header, string, error){
		"bare": func(address string) (http.Header, string, error) {
			return ask(t, http.MethodGet, address+"/acme/a%2Fb//c%20d?list-type=2&prefix=a%3Bb+c", nil, http.Header{"User-Agent": {""}})
		},
		"expecting": func(address string) (http.Header, string, error) {
			return ask(t, http.MethodPut, address+"/acme/k", strings.NewReader("12345"), http.Header{"Expect": {"100-continue"}, "Authorization": {"AWS4"}})
		},
		"chunked": func(address string) (http.Header, string, error) {
			return ask(t, http.MethodPut, address+"/acme/k?partNumber=1", io.MultiReader(strings.NewReader("12345")), http.Header{"If-None-Match": {"*"}})
		},
	} {
		_, straight, err := send(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, through, err := send(front)
		if diff := cmp.Diff(straight, through); diff != "" || err != nil {
			t.Errorf("%s: %v (-sent +got):\n%s", name, err, diff)
		}
	}
	if _, _, err := ask(t, http.MethodDelete, front, nil, http.Header{}); !errors.Is(err, io.EOF) {
		t.Errorf("of a server that breaks off: %v, want EOF", err)
	}
}
