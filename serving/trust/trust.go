// Package trust is about the certificates of servers: why one is not trusted, in words for people, and how to trust the one in a file.
package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Error says that a server's certificate is not the one it should have. Asking again does not help.
type Error struct{ text string }

// Error implements error.
func (e *Error) Error() string { return e.text }

// Reason returns what is wrong with a server's certificate when err, of a request, is about that; nil for other errors.
func Reason(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	v, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || len(v.UnverifiedCertificates) == 0 {
		return nil
	}
	cert := v.UnverifiedCertificates[0]
	if name, ok := errors.AsType[x509.HostnameError](v.Err); ok {
		return &Error{fmt.Sprintf("the certificate of the server is for %s, not for %s: correct the address, or the certificate", namesOf(cert), name.Host)}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](v.Err); ok {
		return &Error{"the certificate of the server is from an authority that is not known here: set SSL_CERT_FILE to a file with that authority's certificate"}
	}
	return &Error{fmt.Sprintf("the certificate of the server is not valid: %v", v.Err)}
}

func namesOf(cert *x509.Certificate) string {
	switch {
	case len(cert.DNSNames) > 0:
		return fmt.Sprintf("%.200q", cert.DNSNames)
	case len(cert.IPAddresses) > 0:
		return fmt.Sprint(cert.IPAddresses)
	}
	return "no name"
}

// File trusts a server of this machine, at whatever address, by its certificate: the first one of a file in PEM, which may be renewed.
func File(path string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares with the certificate itself
		VerifyConnection: func(state tls.ConnectionState) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			block, _ := pem.Decode(raw)
			if block == nil || len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return &Error{fmt.Sprintf("what listens there does not have the certificate in %s: another program has the port, or the file is not its certificate", path)}
			}
			return nil
		},
	}
}
