package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// mailLimit bounds one conversation with a mail server.
const mailLimit = 25 * time.Second

// roots are the certificate authorities that mail servers are verified by; nil means the system's.
var roots *x509.CertPool

// Mail sends a message by a mail server. It is delivered to every address that the server takes; the others make a permanent error.
func Mail(ctx context.Context, server spec.SMTP, password string, to []string, m Message) error {
	from, err := mail.ParseAddress(server.From)
	if err != nil {
		return permanent("smtp `from` %q is not an address: %v", server.From, err)
	}
	var all []*mail.Address
	for _, one := range to {
		a, err := mail.ParseAddress(one)
		if err != nil {
			return permanent("%q is not an address: %v", one, err)
		}
		all = append(all, a)
	}
	ctx, cancel := context.WithTimeout(ctx, mailLimit)
	defer cancel()
	c, err := dial(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // after QUIT the server has closed it already
	if err := login(c, server, password); err != nil {
		return err
	}
	return send(c, from, all, m.mail(from, all))
}

// dial connects, encrypted as the environment says.
func dial(ctx context.Context, server spec.SMTP) (_ *smtp.Client, err error) {
	address := net.JoinHostPort(server.Host, strconv.Itoa(server.Port))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, temporary("mail server %s: %v", address, err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, temporary("mail server %s: %v", address, err)
		}
	}
	secure := &tls.Config{ServerName: server.Host, RootCAs: roots, MinVersion: tls.VersionTLS12}
	if server.TLS == "tls" {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, server.Host)
	if err != nil {
		return nil, refused("mail server "+address, err)
	}
	if server.TLS == "tls" || server.TLS == "none" {
		return c, nil
	}
	if ok, _ := c.Extension("STARTTLS"); !ok {
		return nil, permanent("mail server %s does not support STARTTLS: set smtp `tls: tls`, or `none` if the network is trusted", address)
	}
	return c, refused("mail server "+address+": STARTTLS", c.StartTLS(secure))
}

func login(c *smtp.Client, server spec.SMTP, password string) error {
	if server.User == "" {
		return nil
	}
	if _, methods := c.Extension("AUTH"); !strings.Contains(" "+methods+" ", " PLAIN ") {
		return permanent("mail server %s does not support AUTH PLAIN (but %q), the only method that Sluice supports", server.Host, methods)
	}
	if _, encrypted := c.TLSConnectionState(); !encrypted && !isLocal(server.Host) {
		return permanent("mail server %s: unencrypted connection: passwords are only sent over TLS, or to this machine", server.Host)
	}
	err := c.Auth(smtp.PlainAuth("", server.User, password, server.Host))
	return refused("log in to mail server "+server.Host+" as "+server.User, err)
}

// isLocal reports whether smtp.PlainAuth sends a password to a host without TLS.
func isLocal(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// send hands the mail over for the addresses that the server takes.
func send(c *smtp.Client, from *mail.Address, to []*mail.Address, raw []byte) error {
	if err := c.Mail(from.Address); err != nil {
		return refused("sender "+from.Address, err)
	}
	var refusals []string
	for _, a := range to {
		err := refused("recipient "+a.Address, c.Rcpt(a.Address))
		switch {
		case Permanent(err):
			refusals = append(refusals, err.Error())
		case err != nil:
			return err // all of it is tried again later
		}
	}
	if len(refusals) < len(to) {
		w, err := c.Data()
		if err == nil {
			_, err = w.Write(raw)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			return refused("the mail", err)
		}
	}
	_ = c.Quit() // the server has taken what it will
	if len(refusals) > 0 {
		return permanent("%s", strings.Join(refusals, "; "))
	}
	return nil
}

// refused types an error of the conversation: answers of 5xx are final (RFC 5321, 4.2.1), and so is a wrong certificate.
func refused(what string, err error) error {
	var answer *textproto.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return &Error{Text: fmt.Sprintf("%s: %d %s", what, answer.Code, answer.Msg), Permanent: answer.Code >= 500}
	case errors.As(err, &certificate):
		return permanent("%s: %v", what, err)
	}
	return temporary("%s: %v", what, err)
}

// mail is the message as RFC 5322 has it.
func (m Message) mail(from *mail.Address, to []*mail.Address) []byte {
	sum := sha256.Sum256([]byte(m.ID))
	domain := from.Address[strings.LastIndexByte(from.Address, '@')+1:]
	names := make([]string, len(to))
	for i, a := range to {
		names[i] = a.String()
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", from.String())
	header("To", strings.Join(names, ",\r\n "))
	header("Subject", mime.QEncoding.Encode("utf-8", "[sluice] "+strings.Join(strings.Fields(m.Title), " ")))
	header("Date", m.Time.Format(time.RFC1123Z))
	header("Message-ID", "<"+hex.EncodeToString(sum[:16])+"@"+domain+">")
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	text := fmt.Sprintf("%s.\n\nRun: %s\nEnvironment: %s\nTime: %s\n", m.Title, m.Run, m.Environment, m.Time.Format(time.RFC3339))
	if m.Text != "" {
		text += "\n" + m.Text + "\n"
	}
	body := quotedprintable.NewWriter(&b) // into a buffer, which takes everything
	_, _ = io.WriteString(body, text)
	_ = body.Close()
	return b.Bytes()
}
