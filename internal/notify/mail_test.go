package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// mailServer speaks SMTP (RFC 5321) with STARTTLS and AUTH PLAIN.
type mailServer struct {
	spec    spec.SMTP
	secure  *tls.Config
	offers  []string          // extensions in the clear; those of TLS come beside AUTH after it
	answers map[string]string // to a command, in place of the usual

	mu    sync.Mutex
	login string   // what AUTH PLAIN was given
	to    []string // accepted recipients
	mails []string
	tls   bool
}

// newMailServer listens on loopback; implicit means TLS from the first byte.
func newMailServer(t *testing.T, implicit bool) *mailServer {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil) // for its certificate, of 127.0.0.1
	borrowed.Close()
	roots = x509.NewCertPool()
	roots.AddCert(borrowed.Certificate())
	t.Cleanup(func() { roots = nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{
		secure: &tls.Config{Certificates: borrowed.TLS.Certificates}, offers: []string{"STARTTLS", "8BITMIME"}, answers: map[string]string{},
		spec: spec.SMTP{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, From: "Sluice <sluice@acme.test>", TLS: "starttls"},
	}
	var talks sync.WaitGroup
	talks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if implicit {
				conn = tls.Server(conn, s.secure)
			}
			talks.Go(func() { s.talk(conn, implicit) })
		}
	})
	t.Cleanup(func() { l.Close(); talks.Wait() })
	return s
}

func (s *mailServer) talk(conn net.Conn, encrypted bool) {
	defer func() { conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(lines ...string) { fmt.Fprintf(conn, "%s\r\n", strings.Join(lines, "\r\n")) }
	say("220 mail.test ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		s.mu.Lock()
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		answer, special := s.answers[line]
		switch {
		case special && answer == "": // the connection breaks
			s.mu.Unlock()
			return
		case special:
			say(answer)
		case verb == "EHLO":
			offers := s.offers
			if encrypted {
				offers = []string{"AUTH PLAIN LOGIN", "8BITMIME"}
			}
			all := append([]string{"mail.test"}, offers...)
			for i := range all {
				all[i] = "250-" + all[i]
			}
			all[len(all)-1] = strings.Replace(all[len(all)-1], "-", " ", 1)
			say(all...)
		case verb == "STARTTLS":
			say("220 go ahead")
			conn = tls.Server(conn, s.secure)
			in, encrypted, s.tls = bufio.NewReader(conn), true, true
		case verb == "AUTH":
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			s.login = string(raw)
			say("235 welcome")
		case verb == "MAIL":
			say("250 sender taken")
		case verb == "RCPT":
			s.to = append(s.to, rest)
			say("250 recipient taken")
		case verb == "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			s.mails = append(s.mails, text.String())
			say("250 queued")
		case verb == "QUIT":
			say("221 bye")
			s.mu.Unlock()
			return
		default:
			say("500 what?")
		}
		s.mu.Unlock()
	}
}

func TestMail(t *testing.T) {
	s := newMailServer(t, false)
	s.spec.User = "sluice"
	m := message()
	m.Text += "\n.\nfrom here on a dot alone would cut it: " + strings.Repeat("long ", 50)
	if err := Mail(t.Context(), s.spec, "pass word", []string{"ops@acme.test", "Jürgen <j@acme.test>"}, m); err != nil {
		t.Fatal(err)
	}
	if !s.tls || s.login != "\x00sluice\x00pass word" {
		t.Errorf("encrypted %v, login %q", s.tls, s.login)
	}
	if diff := cmp.Diff([]string{"TO:<ops@acme.test>", "TO:<j@acme.test>"}, s.to); diff != "" {
		t.Errorf("recipients (-want +got):\n%s", diff)
	}
	got, err := mail.ReadMessage(strings.NewReader(s.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]string{}
	for _, name := range []string{"From", "To", "Subject", "Date", "Content-Type", "Auto-Submitted"} {
		if header[name], err = new(mime.WordDecoder).DecodeHeader(got.Header.Get(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"From": `"Sluice" <sluice@acme.test>`, "To": "<ops@acme.test>, Jürgen <j@acme.test>", "Subject": "[sluice] spam has failed",
		"Date": "Fri, 02 Jan 2026 03:04:05 +0000", "Content-Type": "text/plain; charset=utf-8", "Auto-Submitted": "auto-generated",
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil {
		t.Fatal(err)
	}
	text := "spam has failed.\n\nRun: spam-1\nEnvironment: prod\nTime: 2026-01-02T03:04:05Z\n\n" + m.Text + "\n"
	if diff := cmp.Diff(text, strings.ReplaceAll(string(body), "\r\n", "\n")); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	id := got.Header.Get("Message-ID")
	if err := Mail(t.Context(), s.spec, "pass word", []string{"ops@acme.test"}, m); err != nil || !strings.Contains(s.mails[1], id) {
		t.Errorf("sent again it has another ID than %s (%v)", id, err)
	}
}

func TestMailWays(t *testing.T) {
	implicit := newMailServer(t, true)
	implicit.spec.TLS, implicit.spec.User = "tls", "sluice"
	if err := Mail(t.Context(), implicit.spec, "pass", []string{"ops@acme.test"}, message()); err != nil || implicit.login == "" {
		t.Errorf("TLS from the first byte: %v", err)
	}
	plain := newMailServer(t, false)
	plain.spec.TLS = "none"
	if err := Mail(t.Context(), plain.spec, "", []string{"ops@acme.test"}, message()); err != nil || plain.tls || len(plain.mails) != 1 {
		t.Errorf("in the clear: %v, %d mails, encrypted %v", err, len(plain.mails), plain.tls)
	}
}

func TestMailRefused(t *testing.T) {
	const recipient, other = "RCPT TO:<ops@acme.test>", "RCPT TO:<j@acme.test>"
	tests := []struct {
		name      string
		change    func(*mailServer)
		permanent bool
		says      string
		mails     int
	}{
		{"no STARTTLS", func(s *mailServer) { s.offers = []string{"8BITMIME"} }, true, "does not support STARTTLS", 0},
		{"a certificate of nobody known", func(*mailServer) { roots = x509.NewCertPool() }, true, "certificate", 0},
		{"no way to log in", func(s *mailServer) { s.spec.TLS, s.spec.User = "none", "sluice" }, true, "AUTH PLAIN", 0},
		{"a wrong password", func(s *mailServer) {
			s.spec.User = "sluice"
			s.answers["AUTH PLAIN AHNsdWljZQBwYXNzd29yZA=="] = "535 5.7.8 wrong"
		}, true, "535 5.7.8 wrong", 0},
		{"a connection that breaks at the login", func(s *mailServer) {
			s.spec.User = "sluice"
			s.answers["AUTH PLAIN AHNsdWljZQBwYXNzd29yZA=="] = ""
		}, false, "log in to mail server", 0},
		{"busy", func(s *mailServer) { s.answers["MAIL FROM:<sluice@acme.test> BODY=8BITMIME"] = "451 come back later" }, false, "451 come back", 0},
		{"a recipient to be tried later", func(s *mailServer) { s.answers[recipient] = "450 greylisted" }, false, "450 greylisted", 0},
		{"one recipient of two", func(s *mailServer) { s.answers[other] = "550 no such user" }, true, "recipient j@acme.test: 550", 1},
		{"all recipients", func(s *mailServer) { s.answers[recipient], s.answers[other] = "550 gone", "550 gone" }, true, "ops@acme.test: 550", 0},
		{"a sender that is none", func(s *mailServer) { s.spec.From = "sluice" }, true, "is not an address", 0},
		{"a mail server that is not there", func(s *mailServer) { s.spec.Port = 1 }, false, "mail server 127.0.0.1:1", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newMailServer(t, false)
			tt.change(s)
			err := Mail(t.Context(), s.spec, "password", []string{"ops@acme.test", "j@acme.test"}, message())
			if err == nil || Permanent(err) != tt.permanent || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "password") {
				t.Errorf("got %v (permanent %v)", err, Permanent(err))
			}
			if len(s.mails) != tt.mails {
				t.Errorf("%d mails came", len(s.mails))
			}
		})
	}
	if err := Mail(t.Context(), spec.SMTP{From: "a@b.test"}, "", []string{"ops@acme.test\r\nBcc: all"}, message()); !Permanent(err) {
		t.Errorf("an address with a line break: %v", err)
	}
}
