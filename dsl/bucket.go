package dsl

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Bucket is a folder in an object store that speaks S3: s3://bucket/folder?region=REGION&endpoint=URL. All of it is written
// as it is, without escapes.
type Bucket struct {
	Name string
	// Prefix is what the keys in the folder begin with: its name and a slash; empty for the whole bucket.
	Prefix string
	// Region, when it is not the worker's own.
	Region string
	// Endpoint is the address of a server that is not AWS's.
	Endpoint string
}

// maxPrefix is how long S3 lets a key be, in bytes.
const maxPrefix = 1024

var (
	bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$`) // what some servers other than AWS's have, too
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	control    = regexp.MustCompile(`[\x00-\x1f\x7f]`)
)

// ParseBucket reads the address of a bucket or of a folder in one. An error says what is wrong with it, without the address.
func ParseBucket(address string) (Bucket, error) {
	rest, ok := strings.CutPrefix(address, "s3://")
	if !ok {
		return Bucket{}, errors.New("it does not begin with s3://")
	}
	where, options, _ := strings.Cut(rest, "?")
	var b Bucket
	b.Name, b.Prefix, _ = strings.Cut(where, "/")
	if b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/") {
		b.Prefix += "/"
	}
	switch {
	case !bucketName.MatchString(b.Name):
		return Bucket{}, fmt.Errorf("%q is no name of a bucket", b.Name)
	case len(b.Prefix) > maxPrefix:
		return Bucket{}, fmt.Errorf("the folder's name is longer than the %d bytes of a key", maxPrefix)
	case control.MatchString(b.Prefix) || strings.Contains(b.Prefix, "../"):
		return Bucket{}, errors.New("the folder's name has a control character or `..` in it")
	}
	return b, b.options(options)
}

// options reads what follows the question mark.
func (b *Bucket) options(text string) error {
	for option := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case option == "":
		case name == "region" && regionName.MatchString(value):
			b.Region = value
		case name == "endpoint" && isWebURL(value) && !control.MatchString(value) && !strings.ContainsAny(value, "@?#"):
			b.Endpoint = value
		case name == "region":
			return fmt.Errorf("%q is no region: write such as region=eu-central-1", value)
		case name == "endpoint":
			return errors.New("the endpoint is no address: write endpoint=https://host:port, without a user")
		default:
			return fmt.Errorf("%q is no option: there are region and endpoint", name)
		}
	}
	return nil
}
