package embedded

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/once"
)

// TokenFile is the name of the token's file in a state folder.
const TokenFile = "token"

// Token is the secret of one state folder. A client that presents it to the embedded server may do everything there. The keys of agents and
// of the browser are derived from it, so the server needs no list of them.
type Token string

// Folder identifies the token's state folder among those that share a store. It is empty for an empty token. It reveals nothing about the
// token.
func (t Token) Folder() string {
	if t == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(t))
	mac.Write([]byte("folder"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// EnsureToken returns the token of the state folder dir, and creates one if there is none. Only the owner can read the file. A file that
// others can read is rejected, because anyone with the token can run commands as the owner.
func EnsureToken(dir string) (Token, error) {
	path := filepath.Join(dir, TokenFile)
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails, by its documentation
	if err := once.Create(path, []byte(base64.RawURLEncoding.EncodeToString(secret)+"\n")); err != nil {
		return "", fmt.Errorf("write the token %s: %w", path, err)
	}
	return ReadToken(path)
}

// ReadToken reads a token's file. It returns an error that wraps fs.ErrNotExist when there is none.
func ReadToken(path string) (Token, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("token %s is readable by other users (mode %04o): delete it, and a new one will be created", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 32 {
		return "", fmt.Errorf("token %s is truncated: delete it, and a new one will be created", path)
	}
	return Token(token), nil
}

// runsQuery is the query under which the UI lists runs, without the locks, watches and notifications around them.
const runsQuery = `WorkflowType="` + contract.PipelineWorkflow + `"`

// WorkflowURL returns the page of a workflow in the UI at uiAddress ("http://127.0.0.1:8233"), or, if workflowID is empty, of the list of runs,
// the newest first. The URL contains the key of the browser, which opens the UI and nothing else. An empty runID means the latest run.
func (t Token) WorkflowURL(uiAddress, namespace, workflowID, runID string) string {
	page := uiAddress + "/namespaces/" + url.PathEscape(namespace) + "/workflows"
	query := url.Values{uiKeyParam: {t.uiKey()}}
	switch {
	case workflowID == "":
		query.Set("query", runsQuery)
	case runID == "":
		page += "/" + url.PathEscape(workflowID)
	default:
		page += "/" + url.PathEscape(workflowID) + "/" + url.PathEscape(runID) + "/history"
	}
	return page + "?" + query.Encode()
}

// uiKey is the key that the browser presents in place of the token, so that neither its history nor its cookies contain the token.
func (t Token) uiKey() string { return t.sign("ui", "") }

// MintAgentToken makes the token of an agent: it may poll activities on task queues whose name begins with queuePrefix ("node/<run>/"; the
// slash at the end matters), answer and heartbeat activities of the workflow run, and signal and describe that workflow. "The workflow run" is the
// one whose ID is run, and all whose ID begins with run + "/". The token is good for as long as the state folder's token is.
func (t Token) MintAgentToken(queuePrefix, run string) string {
	claims, err := json.Marshal(agentClaims{QueuePrefix: queuePrefix, Run: run})
	if err != nil {
		panic(err) // two strings always marshal
	}
	payload := base64.RawURLEncoding.EncodeToString(claims)
	return agentScheme + payload + "." + t.sign("agent", payload)
}

// agentScheme tells an agent's token from the state folder's, whose alphabet has no dot.
const agentScheme = "agent."

// agentClaims is the content of an agent's token, which is signed but not encrypted.
type agentClaims struct {
	QueuePrefix string `json:"queue"`
	Run         string `json:"run"`
}

// owns reports whether a workflow ID is the run's own or that of one of its children.
func (c *agentClaims) owns(workflowID string) bool {
	return workflowID == c.Run || strings.HasPrefix(workflowID, c.Run+"/")
}

// parseAgentToken returns the claims of an agent's token if t signed them.
func (t Token) parseAgentToken(token string) (*agentClaims, bool) {
	signed, ok := strings.CutPrefix(token, agentScheme)
	payload, signature, _ := strings.Cut(signed, ".")
	// The signature is of the encoded text, because several texts in base64 decode to the same bytes.
	if !ok || !equal(signature, t.sign("agent", payload)) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil, false
	}
	var claims agentClaims
	if err := json.Unmarshal(raw, &claims); err != nil || claims.QueuePrefix == "" || claims.Run == "" {
		return nil, false
	}
	return &claims, true
}

// sign is HMAC-SHA256 (RFC 2104) under the token, over a purpose and a message; the purpose keeps the derived keys apart.
func (t Token) sign(purpose, message string) string {
	mac := hmac.New(sha256.New, []byte(t))
	mac.Write([]byte(purpose + "\x00" + message)) // never fails, by hash.Hash's documentation
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// equal compares two secrets in a time that does not depend on where they differ.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
