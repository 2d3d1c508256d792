package objectstore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/objectstore"
)

func TestParseFolder(t *testing.T) {
	for address, want := range map[string]objectstore.Address{
		"s3://acme-mail":                                   {Scheme: "s3", Name: "acme-mail"},
		"s3://acme-mail/":                                  {Scheme: "s3", Name: "acme-mail"},
		"s3://acme.mail/raw":                               {Scheme: "s3", Name: "acme.mail", Path: "raw/"},
		"s3://Old_Mail/raw/2026/":                          {Scheme: "s3", Name: "Old_Mail", Path: "raw/2026/"},
		"s3://mail/a b%20c//d#e":                           {Scheme: "s3", Name: "mail", Path: "a b%20c//d#e/"},
		"s3://mail/in?region=eu-central-1":                 {Scheme: "s3", Name: "mail", Path: "in/", Region: "eu-central-1"},
		"s3://mail?endpoint=http://minio:9000&region=auto": {Scheme: "s3", Name: "mail", Region: "auto", Endpoint: "http://minio:9000"},
		"s3://mail?endpoint=https://host/s3&":              {Scheme: "s3", Name: "mail", Endpoint: "https://host/s3"},
		"s3://mail?anonymous=true":                         {Scheme: "s3", Name: "mail", Anonymous: true},
		"gs://acme.example.com/in?anonymous=false":         {Scheme: "gs", Name: "acme.example.com", Path: "in/"},
	} {
		got, err := objectstore.ParseFolder(address)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", address, err, diff)
		}
	}
	for address, want := range map[string]string{
		"file:///in":                             "neither s3:// nor gs://",
		"":                                       "neither s3:// nor gs://",
		"s3://":                                  `"" is not a valid bucket name`,
		"s3:///in":                               `"" is not a valid bucket name`,
		"s3://ab/in":                             `"ab" is not a valid bucket name`,
		"gs://Mail/in":                           `"Mail" is not a valid bucket name`,
		"s3://key:secret@mail/in":                "there is a user or a password in it",
		"s3://mail/../other":                     "`..`",
		"s3://mail/a\x01":                        "control character",
		"s3://mail/" + strings.Repeat("x", 1024): "1024 bytes",
		"s3://mail?region=EU":                    `"EU" is not a region`,
		"s3://mail?region":                       `"" is not a region`,
		"s3://mail?endpoint=minio:9000":          "endpoint=https://host:port",
		"s3://mail?endpoint=https:///s3":         "endpoint=https://host:port",
		"s3://mail?endpoint=https://a b":         "endpoint=https://host:port",
		"s3://mail?endpoint=https://key:secret@host":      "without a user",
		"s3://mail?endpoint=https://host?access_key=AKIA": "endpoint=https://host:port",
		"s3://mail?profile=me":                            `"profile" is not an option of a bucket: the options are region, endpoint and anonymous`,
		"s3://mail?anonymous":                             "write anonymous=true",
		"gs://mail?region=eu":                             `"region" is not an option of a bucket: the options are anonymous`,
	} {
		if _, err := objectstore.ParseFolder(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

// FuzzParseFolder: what goes through can be written again, and is read as the same place.
func FuzzParseFolder(f *testing.F) {
	f.Add("s3://mail/in?region=eu-central-1&endpoint=http://minio:9000")
	f.Add("s3://mail//a/../b?region=&x")
	f.Add("gs://mail/a?anonymous=true")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := objectstore.ParseFolder(text)
		if err != nil {
			return
		}
		if a.Path != "" && !strings.HasSuffix(a.Path, "/") || strings.Contains(a.Endpoint, "@") || !objectstore.IsAddress(text) {
			t.Errorf("%q was read as %+v", text, a)
		}
		again := a.Root() + a.Path + "?"
		if a.Region != "" {
			again += "region=" + a.Region + "&"
		}
		if a.Endpoint != "" {
			again += "endpoint=" + a.Endpoint + "&"
		}
		if a.Anonymous {
			again += "anonymous=true"
		}
		if back, err := objectstore.ParseFolder(again); err != nil || back != a {
			t.Errorf("%q was read as %+v, and %q as %+v, %v", text, a, again, back, err)
		}
	})
}
