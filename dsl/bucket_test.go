package dsl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBucket(t *testing.T) {
	for address, want := range map[string]Bucket{
		"s3://acme-mail":                                   {Name: "acme-mail"},
		"s3://acme-mail/":                                  {Name: "acme-mail"},
		"s3://acme.mail/raw":                               {Name: "acme.mail", Prefix: "raw/"},
		"s3://Old_Mail/raw/2026/":                          {Name: "Old_Mail", Prefix: "raw/2026/"},
		"s3://mail/a b%20c//d#e":                           {Name: "mail", Prefix: "a b%20c//d#e/"},
		"s3://mail/in?region=eu-central-1":                 {Name: "mail", Prefix: "in/", Region: "eu-central-1"},
		"s3://mail?endpoint=http://minio:9000&region=auto": {Name: "mail", Region: "auto", Endpoint: "http://minio:9000"},
		"s3://mail?endpoint=https://host/s3&":              {Name: "mail", Endpoint: "https://host/s3"},
	} {
		got, err := ParseBucket(address)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", address, err, diff)
		}
	}
	for address, want := range map[string]string{
		"file:///in":                             "does not begin with s3://",
		"s3://":                                  `"" is no name`,
		"s3:///in":                               `"" is no name`,
		"s3://ab/in":                             `"ab" is no name`,
		"s3://key:secret@mail/in":                "is no name",
		"s3://mail/../other":                     "`..`",
		"s3://mail/a\x01":                        "control character",
		"s3://mail/" + strings.Repeat("x", 1024): "1024 bytes",
		"s3://mail?region=EU":                    `"EU" is no region`,
		"s3://mail?region":                       `"" is no region`,
		"s3://mail?endpoint=minio:9000":          "endpoint=https://host:port",
		"s3://mail?endpoint=https://key:secret@host":      "without a user",
		"s3://mail?endpoint=https://host?access_key=AKIA": "endpoint=https://host:port",
		"s3://mail?profile=me":                            `"profile" is no option`,
	} {
		if _, err := ParseBucket(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@host") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

// FuzzParseBucket: what goes through can be written again, and is read as the same place.
func FuzzParseBucket(f *testing.F) {
	f.Add("s3://mail/in?region=eu-central-1&endpoint=http://minio:9000")
	f.Add("s3://mail//a/../b?region=&x")
	f.Fuzz(func(t *testing.T, address string) {
		b, err := ParseBucket(address)
		if err != nil {
			return
		}
		if b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/") || strings.Contains(b.Endpoint, "@") {
			t.Errorf("%q was read as %+v", address, b)
		}
		again := "s3://" + b.Name + "/" + b.Prefix + "?"
		if b.Region != "" {
			again += "region=" + b.Region + "&"
		}
		if b.Endpoint != "" {
			again += "endpoint=" + b.Endpoint
		}
		if back, err := ParseBucket(again); err != nil || back != b {
			t.Errorf("%q was read as %+v, and %q as %+v, %v", address, b, again, back, err)
		}
	})
}
