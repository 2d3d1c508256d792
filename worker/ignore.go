package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/worker/embedded"
	"github.com/sluiceml/sluice/worker/holder"
)

// alwaysIgnored never belongs to a workspace: version control, state, environments and caches.
var alwaysIgnored = []string{".git", ".sluice", ".venv", "__pycache__", "node_modules"}

// secretNames are files and folders that hold keys and passwords by convention, in small letters and in others. They stay out, since a workspace goes to a store that others
// read and onto every node; a line such as !.env in .sluiceignore takes one along.
var secretNames = []string{
	".env*", "*.env", "*.pem", "*.pem.*", "*.key", "*.key.*", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.secret", "*.tfstate", "*.tfstate.*",
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".docker", ".netrc", "_netrc", ".npmrc", ".pypirc",
	".pgpass", ".my.cnf", ".vault-token", ".git-credentials", ".htpasswd", ".bash_history", ".zsh_history", "credentials.json", "application_default_credentials.json",
	"service-account*.json", "kubeconfig*", "secrets.yaml", "secrets.yml", "secrets.json",
}

// workspace says which paths of a pipeline's folder are part of a run's workspace.
type workspace struct {
	dir, state string
	rules      []rule
	// own is what this process writes its own output to, as in `sluice run pipeline.yaml > run.log`, which would make other files of it
	// every time; keys is what the environment and the payload codec read secrets from.
	own, keys []fs.FileInfo
	// withheld are the paths left out for the secrets that they seem to hold, so far.
	withheld []string
}

// workspaceOf is that of a pipeline in dir. keys are files that hold secrets.
func workspaceOf(dir, state string, keys []string) (*workspace, error) {
	rules, err := readIgnore(filepath.Join(dir, ".sluiceignore"))
	if err != nil {
		return nil, err
	}
	w := &workspace{dir: dir, state: within(dir, state), rules: rules}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() { // a closed one is no file
			w.own = append(w.own, info)
		}
	}
	for _, name := range keys {
		if info, err := os.Stat(name); err == nil {
			w.keys = append(w.keys, info)
		}
	}
	return w, nil
}

// leavesOut reports whether a path is no part of the workspace: what .sluiceignore names, secrets, state folders, which change while they
// are read, and environments.
func (w *workspace) leavesOut(p string) bool {
	file := filepath.Join(w.dir, p)
	if last := lastMatch(w.rules, p); last != nil && !last.take {
		if last.secret {
			w.withheld = append(w.withheld, p)
		}
		return true
	}
	if isOne(file, w.keys) {
		w.withheld = append(w.withheld, p)
		return true
	}
	return p == w.state || isOne(file, w.own) || holdsToken(file) || isEnvironment(w.dir, p)
}

// isOne reports whether a file is one of those known, whatever its name.
func isOne(file string, known []fs.FileInfo) bool {
	if len(known) == 0 {
		return false
	}
	info, err := os.Stat(file)
	return err == nil && slices.ContainsFunc(known, func(k fs.FileInfo) bool { return os.SameFile(k, info) })
}

// isEnvironment reports whether a file is one of the pipeline's environments. The one that a run has travels with it, and another one
// makes no other run of it.
func isEnvironment(dir, p string) bool {
	name, yaml := strings.CutSuffix(path.Base(p), ".yaml")
	file := filepath.Join(dir, p)
	if !yaml || file != EnvironmentPath(filepath.Join(dir, "pipeline.yaml"), name) {
		return false
	}
	source, err := ReadDocument(file)
	return err == nil && IsEnvironment(source)
}

// holdsToken reports whether a folder is the state folder of another `--state`, whose token would go wherever the workspace goes.
func holdsToken(folder string) bool {
	for _, name := range []string{holder.LockFile, embedded.TokenFile} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// within is the path of a folder as seen from another; empty where there is none.
func within(dir, folder string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return ""
	}
	inside, err := filepath.Rel(dir, folder)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(inside)
}

// rule is a line of .sluiceignore, or one that is always there.
type rule struct {
	pattern string
	take    bool // a line that begins with !: what matches is part of the workspace after all
	secret  bool
}

// readIgnore reads a .sluiceignore: a pattern a line, as of path.Match, against the name of a file or folder or, with a slash in it,
// against its path in the workspace; # begins a comment. Of the rules that match a path the last one counts.
func readIgnore(file string) ([]rule, error) {
	var rules []rule
	for _, p := range secretNames {
		rules = append(rules, rule{pattern: p, secret: true})
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			p := strings.TrimSuffix(strings.TrimSpace(lines.Text()), "/")
			if p == "" || strings.HasPrefix(p, "#") {
				continue
			}
			p, take := strings.CutPrefix(p, "!")
			if _, err := path.Match(p, ""); err != nil {
				return nil, fmt.Errorf("%s:%d: pattern %q: %w", file, n, p, err)
			}
			rules = append(rules, rule{pattern: strings.TrimPrefix(p, "/"), take: take})
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range alwaysIgnored {
		rules = append(rules, rule{pattern: p})
	}
	return rules, nil
}

// lastMatch is the last rule that matches p or a folder above it; nil for none.
func lastMatch(rules []rule, p string) *rule {
	for i := range slices.Backward(rules) {
		for at := p; at != "." && at != "/"; at = path.Dir(at) {
			subject := path.Base(at)
			if strings.Contains(rules[i].pattern, "/") {
				subject = at
			}
			if rules[i].secret {
				subject = strings.ToLower(subject)
			}
			if ok, _ := path.Match(rules[i].pattern, subject); ok {
				return &rules[i]
			}
		}
	}
	return nil
}
