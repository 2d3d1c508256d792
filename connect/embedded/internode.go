package embedded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"go.temporal.io/server/common/rpc/encryption"
)

// internodeName is the one name in the internal certificate.
const internodeName = "sluice-embedded"

// internode protects the ports on which Temporal's services talk to each other. They do not check tokens, so any local user could start
// workflows through them. They therefore require mutual TLS with a certificate that is created at every start and never leaves the process.
// The frontend, which checks tokens, is on loopback without TLS.
type internode struct{ server, client *tls.Config }

func newInternode() (*internode, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for Temporal's internal ports: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: internodeName},
		DNSNames:              []string{internodeName},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0), // the process ends first
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for Temporal's internal ports: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for Temporal's internal ports: %w", err)
	}
	certificates := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &internode{
		server: &tls.Config{Certificates: certificates, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13},
		client: &tls.Config{Certificates: certificates, RootCAs: roots, ServerName: internodeName, MinVersion: tls.VersionTLS13},
	}, nil
}

var _ encryption.TLSConfigProvider = (*internode)(nil)

// GetInternodeServerConfig is called by every service but the frontend.
func (i *internode) GetInternodeServerConfig() (*tls.Config, error) { return i.server.Clone(), nil }

// GetInternodeClientConfig is called by clients of the services and of the internal frontend.
func (i *internode) GetInternodeClientConfig() (*tls.Config, error) { return i.client.Clone(), nil }

// GetFrontendServerConfig returns nil: no TLS.
func (i *internode) GetFrontendServerConfig() (*tls.Config, error) { return nil, nil }

// GetFrontendClientConfig returns nil: no TLS.
func (i *internode) GetFrontendClientConfig() (*tls.Config, error) { return nil, nil }

// GetRemoteClusterClientConfig returns nil: there is no other cluster.
func (i *internode) GetRemoteClusterClientConfig(string) (*tls.Config, error) { return nil, nil }

// GetExpiringCerts reports none.
func (i *internode) GetExpiringCerts(time.Duration) (_, _ encryption.CertExpirationMap, _ error) {
	return nil, nil, nil
}
