package document

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// credentials are a user and a password, or a token, in a URL. A password may have characters that should have been escaped.
var credentials = regexp.MustCompile(`://([^\s"/@:]*:[^\s"]*|[^\s"/@:]+)@`)

// hidden is a text without the passwords of URLs in it, which may be shown. Columns stay as they are.
func hidden(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	return credentials.ReplaceAllStringFunc(text, func(found string) string {
		shown, secret := "://", found[len("://"):len(found)-1]
		if user, password, ok := strings.Cut(secret, ":"); ok {
			shown, secret = shown+user+":", password
		}
		return shown + strings.Repeat("*", utf8.RuneCountInString(secret)) + "@"
	})
}
