package secret

import "testing"

func TestURLParts(t *testing.T) {
	const address = "https://tokenuser:pass1@hooks.example.com/v1/T0123456789/a%2Fb%20secret%27s?key=q+s3cret%2Fvalue&x=1&barekey123"
	for before, want := range map[string]string{
		"hooks.example.com answers 404 Not Found":                                 "hooks.example.com answers 404 Not Found",
		"Cannot POST /v1/T0123456789/a%2Fb%20secret%27s":                          "Cannot POST ***",
		"Cannot POST v1/T0123456789/a%2Fb%20secret%27s":                           "Cannot POST ***",
		"Cannot POST /v1/T0123456789/a/b secret&#39;s":                            "Cannot POST ***",
		"Cannot POST /v1/T0123456789/a/b secret&apos;s":                           "Cannot POST ***",
		"no handler T0123456789.":                                                 "no handler ***.",
		"no a/b secret's here":                                                    "no *** here",
		"key=q+s3cret%2Fvalue&x=1&barekey123":                                     "***",
		"the key q s3cret/value is wrong":                                         "the key *** is wrong",
		"the key barekey123 is wrong":                                             "the key *** is wrong",
		"tokenuser may not log in with pass1":                                     "*** may not log in with ***",
		"v1 of the hooks has no such key, x=1":                                    "v1 of the hooks has no such key, x=1",
		"/v1/T0123456789/a%2Fb%20secret%27s?key=q+s3cret%2Fvalue&x=1&barekey123!": "***!",
	} {
		if got := NewMask(URLParts(address)...).Text(before); got != want {
			t.Errorf("%q became %q, want %q", before, got, want)
		}
	}
	for _, plain := range []string{"https://example.com", "https://example.com/", "::", ""} {
		if got := NewMask(URLParts(plain)...).Text("example.com answers https://"); got != "example.com answers https://" {
			t.Errorf("parts of %q: %q", plain, got)
		}
	}
}
