// Package doortest makes certificates and tokens for tests.
package doortest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sluiceml/sluice/dsl/spec"
)

// CA is an authority.
type CA struct {
	// Last is the file of the certificate that Files wrote last.
	Last string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// NewCA makes an authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{key: newKey(t), next: 2}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of a test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return ca
}

// Pool trusts the authority.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// PEM is the authority's certificate.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Issue makes a certificate for names or addresses, and its key.
func (ca *CA) Issue(t testing.TB, names ...string) (cert, key []byte) {
	t.Helper()
	own := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ca.next), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	ca.next++
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.cert, own.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// Pair is a certificate of the authority, for a client.
func (ca *CA) Pair(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(t, "client"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Files writes a certificate for names into files.
func (ca *CA) Files(t testing.TB, names ...string) spec.GatewayTLS {
	t.Helper()
	dir := t.TempDir()
	files := spec.GatewayTLS{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	cert, key := ca.Issue(t, names...)
	Write(t, files.Certificate, cert)
	Write(t, files.Key, key)
	ca.Last = files.Certificate
	return files
}

// Write writes a file.
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Signer signs tokens.
type Signer struct {
	ID        string
	Algorithm jose.SignatureAlgorithm
	Key       any
}

// NewSigner makes a signer with a key for ES256.
func NewSigner(t testing.TB, id string) Signer {
	t.Helper()
	return Signer{id, jose.ES256, newKey(t)}
}

// Claims are those of a token that a target accepts from the issuer https://issuer.test for the audience shop, with others in their place;
// nil leaves one out.
func Claims(others map[string]any) map[string]any {
	claims := map[string]any{"iss": "https://issuer.test", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix(), "sub": "somebody"}
	for name, value := range others {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Token signs claims.
func (s Signer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: s.Algorithm, Key: s.Key}, (&jose.SignerOptions{}).WithHeader("kid", s.ID))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// KeySet is the public keys of signers, as an issuer publishes them.
func KeySet(t testing.TB, signers ...Signer) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, s := range signers {
		private, ok := s.Key.(crypto.Signer)
		if !ok {
			t.Fatalf("%T has no public key", s.Key)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: private.Public(), KeyID: s.ID, Use: "sig"})
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
