package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	tokenpb "go.temporal.io/server/api/token/v1"
	"pgregory.net/rapid"
)

func execution(id string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: id}
}

func taskToken(t *testing.T, workflowID string) []byte {
	t.Helper()
	token, err := (&tokenpb.Task{WorkflowId: workflowID}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestEnsureToken(t *testing.T) {
	dir := t.TempDir()
	first, err := EnsureToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := EnsureToken(dir)
	if err != nil || second != first {
		t.Errorf("the second time: %q, %v, want the first token", second, err)
	}
	info, err := os.Stat(filepath.Join(dir, TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token has mode %04o, want 0600", info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v; want the token alone", entries, err)
	}
}

func TestReadTokenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		mode          os.FileMode
		want          string
	}{
		{"readable by others", strings.Repeat("t", 43), 0o644, "is readable by other users"},
		{"truncated", "abc", 0o600, "is truncated"},
		{"empty", "", 0o600, "is truncated"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), TokenFile)
			if err := os.WriteFile(path, []byte(tc.content), tc.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadToken(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), TokenFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no token: got %v, want fs.ErrNotExist", err)
	}
}

func TestAgentTokenKeepsItsClaims(t *testing.T) {
	name := rapid.StringN(1, 40, -1)
	rapid.Check(t, func(t *rapid.T) {
		token := Token(rapid.StringN(32, 43, -1).Draw(t, "token"))
		want := agentClaims{QueuePrefix: name.Draw(t, "queue"), Run: name.Draw(t, "run")}
		minted := token.MintAgentToken(want.QueuePrefix, want.Run)
		got, ok := token.parseAgentToken(minted)
		if !ok {
			t.Fatalf("own token %q refused", minted)
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Fatalf("claims (-want +got):\n%s", diff)
		}
		if _, ok := (token + "x").parseAgentToken(minted); ok {
			t.Fatal("accepted by another folder")
		}
		i := rapid.IntRange(0, len(minted)-1).Draw(t, "i")
		changed := []byte(minted)
		changed[i] ^= 1
		if _, ok := token.parseAgentToken(string(changed)); ok {
			t.Fatalf("accepted after a change: %q", changed)
		}
	})
}

func TestAgentOwns(t *testing.T) {
	c := agentClaims{QueuePrefix: "node/r/", Run: "r"}
	for id, want := range map[string]bool{"r": true, "r/fit": true, "r/fit/x": true, "r2": false, "": false, "s": false, "/r": false} {
		if got := c.owns(id); got != want {
			t.Errorf("owns(%q) = %v, want %v", id, got, want)
		}
	}
	elsewhere, err := (&tokenpb.Task{WorkflowId: "r/fit", ComponentRef: []byte("an activity of its own")}).Marshal()
	if err != nil || c.ownsTask(elsewhere) {
		t.Errorf("the token of an activity without a workflow is the agent's (%v)", err)
	}
	if c.ownsTask([]byte("not a token")) || c.ownsTask(nil) || c.ownsTask(taskToken(t, "s")) || !c.ownsTask(taskToken(t, "r/fit")) {
		t.Error("task tokens are told apart wrongly")
	}
}

// FuzzParseAgentToken: only what was minted is accepted, and nothing makes the parser fail otherwise.
func FuzzParseAgentToken(f *testing.F) {
	token := Token(strings.Repeat("t", 43))
	f.Add(token.MintAgentToken("node/r/", "r"))
	f.Add("agent..")
	f.Add("agent.e30.AAAA")
	f.Fuzz(func(t *testing.T, given string) {
		claims, ok := token.parseAgentToken(given)
		if ok && token.MintAgentToken(claims.QueuePrefix, claims.Run) != given {
			t.Fatalf("accepted %q, which was never minted", given)
		}
	})
}
