package door

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

const (
	// lookEvery is how often connections have the files looked at.
	lookEvery = time.Second
	// maxPEM bounds a file of certificates.
	maxPEM = 1 << 20
)

// certificate is the gateway's, from files that may be renewed.
type certificate struct {
	files spec.GatewayTLS
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	failed bool
	pem    [3][]byte // as they were read
	config *tls.Config
}

func readCertificate(files spec.GatewayTLS, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log, looked: time.Now()}
	if err := c.load(); err != nil {
		return nil, unusable(err, "`tls` of the target names files in PEM, which the user who serves must be able to read")
	}
	return c, nil
}

// load reads the files. A configuration is made only of new ones, and holds the keys of its sessions: none outlives what it was made with.
func (c *certificate) load() error {
	var pem [3][]byte
	var unread []string
	for i, path := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA} {
		if path == "" {
			continue
		}
		var err error
		if pem[i], err = readBounded(path, maxPEM); err != nil {
			unread = append(unread, err.Error())
		}
	}
	if len(unread) > 0 {
		return errors.New("tls: " + strings.Join(unread, "; "))
	}
	if c.config != nil && bytes.Equal(pem[0], c.pem[0]) && bytes.Equal(pem[1], c.pem[1]) && bytes.Equal(pem[2], c.pem[2]) {
		return nil
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err != nil {
		return fmt.Errorf("tls: the certificate %s with the key %s: %w", c.files.Certificate, c.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.files.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem[2]) {
			return fmt.Errorf("tls: the file %s has no certificate of an authority", c.files.ClientCA)
		}
		// Those without may ask for the gateway's health: see Door.Admit.
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.pem, c.config = pem, config
	return nil
}

// server is the configuration of a listener. Each connection gets the newest certificate.
func (c *certificate) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}
}

// current looks at the files now and then. What cannot be used, such as a certificate whose key is not there yet, changes nothing.
func (c *certificate) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		err := c.load()
		if err != nil && !c.failed {
			c.log.Warn("the renewed certificate cannot be used; the last one stays in use", "error", err)
		}
		c.failed = err != nil
	}
	return c.config
}

// readBounded reads a file that may be no larger than so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return raw, nil
}
