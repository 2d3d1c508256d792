package secret

import (
	"html"
	"net/url"
	"strings"
)

// minPart is how long a segment of a path or a value of a query must be to be masked on its own: shorter ones are words of ordinary text.
const minPart = 8

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
