package codec

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// KeysVariable names the environment variable that holds the path of the key file.
const KeysVariable = "SLUICE_CODEC_KEYS"

const (
	keySize    = 32 // AES-256
	maxKeyFile = 64 << 10
	// acceptPlain is the line of a key file that lets a process read payloads that are not encrypted.
	acceptPlain = "accept-plain"
	howToMake   = "`sluice codec key` prints a line for it"
)

// keyID is the form of a key's ID, which is readable in Temporal.
var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Ring is the keys that a process knows: one encrypts, all decrypt.
type Ring struct {
	path   string // absolute
	active string
	// acceptsPlain is true while payloads that are not encrypted are read.
	acceptsPlain bool
	keys         map[string]cipher.AEAD // each use of a key has a random nonce
}

// ReadRing reads a key file, which has a line "<id> <key in base64>" per key. The first key encrypts, and all keys decrypt. Empty lines and
// lines that begin with # are skipped, and the line accept-plain lets the process read payloads that are not encrypted. A file that users other than its owner can read is rejected. No error contains a key.
func ReadRing(path string) (*Ring, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file of the payload codec ($%s): %w; %s", KeysVariable, err, howToMake)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("key file %s: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("key file %s is not a file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("key file %s is readable by other users (mode %04o): make it readable by you only: chmod 600 %s", path, info.Mode().Perm(), path)
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("key file %s has %d bytes, more than the maximum of %d: it is not a key file", path, info.Size(), maxKeyFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	ring, err := parseRing(data)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	ring.path = path
	return ring, nil
}

func parseRing(data []byte) (*Ring, error) {
	ring := &Ring{keys: map[string]cipher.AEAD{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if line == acceptPlain {
			ring.acceptsPlain = true
			continue
		}
		id, key, err := parseKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case ring.keys[id] != nil:
			return nil, fmt.Errorf("line %d: key %q is listed twice", n, id)
		case ring.active == "":
			ring.active = id
		}
		ring.keys[id] = key
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if ring.active == "" {
		return nil, fmt.Errorf("it contains no key; %s", howToMake)
	}
	return ring, nil
}

func parseKey(line string) (id string, key cipher.AEAD, err error) {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return "", nil, fmt.Errorf("a line must be an ID, a space and a key in base64; %s", howToMake)
	}
	id = fields[0]
	if !keyID.MatchString(id) {
		return "", nil, errors.New("the ID may have up to 64 letters, digits and ._-")
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(raw) != keySize {
		return "", nil, fmt.Errorf("key %q is not %d bytes in base64; %s", id, keySize, howToMake)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return "", nil, err
	}
	key, err = cipher.NewGCMWithRandomNonce(block)
	return id, key, err
}

// find returns the key that a payload names.
func (r *Ring) find(id string) (cipher.AEAD, error) {
	if r == nil {
		return nil, fmt.Errorf("the payload is encrypted with key %q, but this process has no keys: set the key file with $%s", id, KeysVariable)
	}
	if key := r.keys[id]; key != nil {
		return key, nil
	}
	return nil, fmt.Errorf("the payload is encrypted with key %q, which is missing in %s: add it, and restart this process", id, r.path)
}

// NewKey generates a key, as a line of a key file. Its ID begins with the date, which helps to rotate keys.
func NewKey(now time.Time) string {
	key, suffix := make([]byte, keySize), make([]byte, 3)
	rand.Read(key) // never fails, by its documentation
	rand.Read(suffix)
	return now.UTC().Format(time.DateOnly) + "-" + hex.EncodeToString(suffix) + " " + base64.StdEncoding.EncodeToString(key)
}
