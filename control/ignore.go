package control

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluiceml/sluice/internal/fault"
)

// ignoreFile names what of a pipeline's folder is no part of the workspace, as .gitignore does for git.
const ignoreFile = ".sluiceignore"

// alwaysIgnored never belongs to a workspace: version control, state, environments, caches, and reports by the names that `sluice report` gives
// them, with the time at which a command or a schedule began their run: after a look at a run, all steps would be executed again.
var alwaysIgnored = []string{
	".git", ".sluice", ".venv", "__pycache__", "node_modules",
	"*-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]-[0-9][0-9][0-9][0-9][0-9][0-9]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]*.html",
	"*-[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z*.html",
}

// secretNames are files and folders that hold keys and passwords by convention, in small letters and in others. They stay out, since a
// workspace goes to a store that others read and onto every node; a line such as !.env in .sluiceignore takes one along.
var secretNames = []string{
	".env*", "*.env", "*.pem", "*.pem.*", "*.key", "*.key.*", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.secret", "*.tfstate", "*.tfstate.*",
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".docker", ".netrc", "_netrc", ".npmrc", ".pypirc",
	".pgpass", ".my.cnf", ".vault-token", ".git-credentials", ".htpasswd", ".bash_history", ".zsh_history", "credentials.json", "application_default_credentials.json",
	"service-account*.json", "kubeconfig*", "secrets.yaml", "secrets.yml", "secrets.json",
}

// rule is a line of .sluiceignore, or one that is always there.
type rule struct {
	line     int      // in .sluiceignore; 0 for one that is always there
	segments []string // of a path, each a pattern of path.Match, or ** for any number of folders
	take     bool     // a line that begins with !: what matches is part of the workspace after all
	folders  bool     // a line that ends with /: it matches folders alone
	secret   bool     // what matches seems to hold secrets
}

// readIgnore reads a .sluiceignore, which means what it would as a .gitignore beside it. Of the rules that match a path the last one counts.
func readIgnore(file string) (rules []rule, err error) {
	for _, p := range secretNames {
		rules = append(rules, rule{segments: []string{"**", p}, secret: true})
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() { // to open a named pipe would wait for its writer
		return nil, fault.Errorf(fault.Invalid, "%s is not a regular file\nhelp: rename or remove it; it must be a text file with one pattern per line", file)
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			text := strings.TrimPrefix(lines.Text(), "\ufeff")
			if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
				continue
			}
			r, err := parseRule(text)
			if err != nil {
				return nil, fault.New(fault.Invalid, fmt.Sprintf("%s:%d: the pattern %q %s", file, n, text, err), err)
			}
			r.line = n
			rules = append(rules, r)
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range alwaysIgnored {
		rules = append(rules, rule{segments: []string{"**", p}})
	}
	return rules, nil
}

// characterClass finds the classes of characters in a pattern, and what a backslash keeps from beginning one.
var characterClass = regexp.MustCompile(`\\.|\[(?:\\.|[^\]\\])*\]`)

// parseRule reads a line of .sluiceignore. What git would take for a pattern that matches nothing is an error.
func parseRule(text string) (r rule, err error) {
	if strings.TrimLeft(text, " \t") != text {
		return r, errors.New("begins with a space, which would be part of the name\nhelp: remove it, or write `\\ ` for a name that begins with a space")
	}
	text, r.take = strings.CutPrefix(text, "!")
	p := strings.TrimRight(text, " ")
	if escapes := len(p) - len(strings.TrimRight(p, `\`)); p != text && escapes%2 == 1 {
		p += " "
	}
	p, r.folders = strings.CutSuffix(p, "/")
	below, anchored := strings.CutPrefix(p, "/")
	p = characterClass.ReplaceAllStringFunc(below, func(class string) string {
		if strings.Contains(class, "[:") {
			err = errors.New("has a named character class, which is not supported\nhelp: write the characters, such as [a-z]")
		}
		if rest, not := strings.CutPrefix(class, "[!"); not {
			return "[^" + rest
		}
		return class
	})
	r.segments = strings.Split(p, "/")
	for i, s := range r.segments {
		if s == "" || s == "." || s == ".." {
			return r, errors.New("matches nothing\nhelp: write a path relative to the pipeline's folder, without `.`, `..` and `//`")
		}
		if strings.HasPrefix(s, "**") && strings.Trim(s, "*") == "" {
			r.segments[i] = "**" // of any number of stars, as git has it
		}
		if _, bad := path.Match(s, ""); bad != nil {
			return r, errors.New("is not valid\nhelp: close the `[`, and write \\[, \\- and \\\\ for the characters themselves")
		}
	}
	if len(r.segments) == 1 && !anchored {
		r.segments = []string{"**", p}
	}
	return r, err
}

// lastMatch is the last rule that matches a path; nil for none. What is in a folder that is left out is left out with it.
func lastMatch(rules []rule, p string, folder bool) *rule {
	names, lower := strings.Split(p, "/"), strings.Split(strings.ToLower(p), "/")
	for i, r := range slices.Backward(rules) {
		subject := names
		if r.secret {
			subject = lower
		}
		if (folder || !r.folders) && matchPath(r.segments, subject) {
			return &rules[i]
		}
	}
	return nil
}

// matchPath reports whether a pattern matches a path: ** any number of folders, and at the end whatever is below; any other segment one name.
func matchPath(pattern, names []string) bool {
	for ; len(pattern) > 0; pattern, names = pattern[1:], names[min(1, len(names)):] {
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(names) > 0
			}
			for i := range names {
				if matchPath(pattern[1:], names[i:]) {
					return true
				}
			}
			return false
		}
		if len(names) == 0 {
			return false
		}
		if ok, _ := path.Match(pattern[0], names[0]); !ok { // that it can be read was checked
			return false
		}
	}
	return len(names) == 0
}

// patternOf is the line that names one path and nothing else. Bytes that are no text are given as `?`.
func patternOf(p string) string {
	var b strings.Builder
	b.WriteByte('/')
	for i, r := range p { // a byte that is not valid UTF-8 is RuneError
		switch {
		case r == utf8.RuneError, unicode.IsControl(r):
			b.WriteByte('?')
		case strings.ContainsRune(`*?[\`, r), r == ' ' && i == len(p)-1:
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
