package secret

import (
	"html"
	"net/url"
	"os"
	"strings"
	"unicode"

	"github.com/sluiceml/sluice/internal/childenv"
)

// minPart is how long a segment of a path or a value of a query must be to be masked on its own: shorter ones are words of ordinary text.
const minPart = 8

// inheritedPasswords are the passwords in URLs of this process's environment that every program inherits, those of proxies and package indexes:
// as they are written and as they are meant. A user without a password is a token.
func inheritedPasswords() []string {
	var all []string
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if !childenv.Inheritable(name) {
			continue
		}
		for address := range strings.FieldsFuncSeq(value, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
			_, rest, isURL := strings.Cut(address, "://")
			authority, _, _ := strings.Cut(rest, "/")
			at := strings.LastIndexByte(authority, '@')
			if !isURL || at < 0 {
				continue
			}
			user, password, has := strings.Cut(authority[:at], ":")
			if !has {
				password = user
			}
			plain, err := url.PathUnescape(password)
			if err != nil {
				plain = password
			}
			all = append(all, password, plain)
		}
	}
	return all
}

// URLParts are the parts of a URL that a receiver may repeat and that may be its secret, as they are written and as they are meant: the
// path, the query, who logs in, and each long segment and value. The host is none of them.
func URLParts(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	var parts []string
	add := func(least int, part string) {
		plain := part
		if decoded, err := url.QueryUnescape(part); err == nil {
			plain = decoded
		}
		inPath := plain
		if decoded, err := url.PathUnescape(part); err == nil { // where + is no space
			inPath = decoded
		}
		for _, form := range []string{part, plain, inPath} {
			if len(form) < least {
				continue
			}
			page := html.EscapeString(form)
			parts = append(parts, form, page, strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(page))
		}
	}
	path := u.EscapedPath()
	add(0, u.RequestURI())
	add(0, path)
	add(minPart, strings.Trim(path, "/"))
	for segment := range strings.SplitSeq(path, "/") {
		add(minPart, segment)
	}
	add(0, u.RawQuery)
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		key, value, has := strings.Cut(pair, "=")
		if !has {
			value = key
		}
		add(minPart, value)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		parts = append(parts, password, u.User.String())
		add(minPart, u.User.Username())
	}
	return parts
}
