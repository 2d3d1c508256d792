// Package objectstore reads the addresses of buckets in object stores, and of folders in them. It opens nothing: see package cloud.
package objectstore

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The schemes of addresses.
const (
	// S3 is Amazon's, and that of every server that speaks as it does.
	S3 = "s3"
	// Google is Google Cloud Storage.
	Google = "gs"
)

// Address is s3://NAME/PATH?region=REGION&endpoint=URL&anonymous=true, or gs://NAME/PATH?anonymous=true. All of it is written as it is,
// without escapes. Credentials are never part of it.
type Address struct {
	// Scheme is S3 or Google.
	Scheme string
	// Name of the bucket.
	Name string
	// Path is what follows the name and its slash: of a folder, an object or a pattern of objects.
	Path string
	// Region, when it is not the process's own.
	Region string
	// Endpoint is the address of a server that is not AWS's.
	Endpoint string
	// Anonymous asks without credentials, for what everybody may read.
	Anonymous bool
}

// maxKey is how long S3 and Google let a key be, in bytes.
const maxKey = 1024

var (
	// names are what some servers other than AWS's have, too; Google's may be domains.
	names = map[string]*regexp.Regexp{
		S3:     regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$`),
		Google: regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{2,221}$`),
	}
	options  = map[string]string{S3: "region, endpoint and anonymous", Google: "anonymous"}
	region   = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	endpoint = regexp.MustCompile(`^https?://[^/\s[:cntrl:]@?#][^\s[:cntrl:]@?#]*$`)
	control  = regexp.MustCompile(`[[:cntrl:]]`)
)

// IsAddress reports whether a text begins as an address does.
func IsAddress(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && names[scheme] != nil
}

// Parse reads an address. An error says what is wrong with it, without the address, which may hold what it should not.
func Parse(text string) (Address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	name := names[scheme]
	if name == nil {
		return Address{}, errors.New("it begins with neither s3:// nor gs://")
	}
	a := Address{Scheme: scheme}
	where, asked, _ := strings.Cut(rest, "?")
	a.Name, a.Path, _ = strings.Cut(where, "/")
	if strings.Contains(a.Name, "@") {
		return Address{}, errors.New("there is a user or a password in it: credentials come from the environment of the process")
	}
	if !name.MatchString(a.Name) {
		return Address{}, fmt.Errorf("%q is not a valid bucket name", a.Name)
	}
	for option := range strings.SplitSeq(asked, "&") {
		if err := a.set(option); err != nil {
			return Address{}, err
		}
	}
	return a, nil
}

// set takes one of the options that follow the question mark.
func (a *Address) set(option string) error {
	name, value, _ := strings.Cut(option, "=")
	s3 := a.Scheme == S3
	switch {
	case option == "":
	case s3 && name == "region" && region.MatchString(value):
		a.Region = value
	case s3 && name == "endpoint" && endpoint.MatchString(value):
		a.Endpoint = value
	case name == "anonymous" && (value == "true" || value == "false"):
		a.Anonymous = value == "true"
	case s3 && name == "region":
		return fmt.Errorf("%q is not a region: write for example region=eu-central-1", value)
	case s3 && name == "endpoint":
		return errors.New("the endpoint is not a valid address: write endpoint=https://host:port, without a user")
	case name == "anonymous":
		return errors.New("write anonymous=true")
	default:
		return fmt.Errorf("%q is not an option of a bucket: the options are %s", name, options[a.Scheme])
	}
	return nil
}

// ParseFolder reads the address of a folder, or of a whole bucket: its Path is empty or ends with a slash, and so begins the keys of what
// is in the folder.
func ParseFolder(text string) (Address, error) {
	a, err := Parse(text)
	if err != nil {
		return Address{}, err
	}
	if a.Path != "" && !strings.HasSuffix(a.Path, "/") {
		a.Path += "/"
	}
	switch {
	case len(a.Path) > maxKey:
		return Address{}, fmt.Errorf("the folder's name is longer than %d bytes, the maximum of a key", maxKey)
	case control.MatchString(a.Path) || strings.Contains(a.Path, "../"):
		return Address{}, errors.New("the folder's name contains a control character or `..`")
	}
	return a, nil
}

// Root is the bucket without what is in it: s3://NAME/.
func (a Address) Root() string { return a.Scheme + "://" + a.Name + "/" }
