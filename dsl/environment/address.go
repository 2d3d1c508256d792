package environment

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// mailAddress is one address as the sender of mail reads it (RFC 5322): NAME@HOST, or words and then <NAME@HOST>.
var mailAddress = regexp.MustCompile(`^(?:` + nameAtHost + `|(?:"[^"\r\n]*" *|[^@<>,;"\r\n]*)<` + nameAtHost + `>)$`)

const nameAtHost = `[^\s@<>(),;:"]+@[^\s@<>(),;"]+`

// IsMail reports whether s may be an address of mail, with or without a name.
func IsMail(s string) bool { return mailAddress.MatchString(s) }

// IsWeb reports whether s may be a URL of the web.
func IsWeb(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	return ok && (strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")) && rest != "" && rest[0] != '/' && !strings.ContainsAny(s, " \t\n")
}

// CheckWeb reports what is not a URL of the web.
func CheckWeb(src *document.Source, at *yaml.Node) {
	if !IsWeb(at.Value) {
		src.Errorf(at, "url", "write http://HOST or https://HOST", "%q is not an address", at.Value)
	}
}

var replaced = regexp.MustCompile(`\*|\$[A-Z]|%[0-9A-Fa-f]{2}`)

// IsReplaced reports whether a URL of a folder has what other programs replace: patterns, variables and escapes.
func IsReplaced(url string) bool { return replaced.MatchString(url) }

var prometheusPath = regexp.MustCompile(`/(api/v1(/query(_range)?)?|graph)/?([?#].*)?$`)

// CheckPrometheus warns of the address of a page or of the API of Prometheus; at may be nil.
func CheckPrometheus(src *document.Source, at *yaml.Node) {
	if at == nil || !IsWeb(at.Value) {
		return
	}
	if path := prometheusPath.FindString(at.Value); path != "" {
		src.Warnf(at, "url", "write "+strings.TrimSuffix(at.Value, path), "/api/v1/query is added to the address of Prometheus")
	}
}

var ownOrEncrypted = regexp.MustCompile(`^(https://|http://(localhost|127\.[0-9.]+|\[::1\])([:/]|$))`)

// IsOwnOrEncrypted reports whether s is a URL whose answers nobody else can change on the way.
func IsOwnOrEncrypted(s string) bool { return ownOrEncrypted.MatchString(s) }

// IsHostPort reports whether s may be host:port.
func IsHostPort(s string) bool {
	i := strings.LastIndexByte(s, ':')
	_, err := strconv.ParseUint(s[i+1:], 10, 16)
	return i > 0 && err == nil && !strings.ContainsAny(s, "/@ ")
}

// image is the name of a container image: a registry and a path, a tag, a digest.
var image = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:\w[\w.-]{0,127})?(@[A-Za-z0-9_+.-]+:[0-9a-fA-F]{32,})?$`)

// CheckImage reports what no registry has as an image; at may be nil.
func CheckImage(src *document.Source, at *yaml.Node) {
	if at == nil || at.Kind != yaml.ScalarNode || at.Tag == "!!null" || strings.Contains(at.Value, "${") || image.MatchString(at.Value) {
		return
	}
	hint := "write for example ghcr.io/acme/train:cu124"
	_, without, hasScheme := strings.Cut(at.Value, "://")
	if hasScheme && image.MatchString(without) {
		hint = "write " + without
	} else if lower := strings.ToLower(at.Value); image.MatchString(lower) {
		hint = "write the path in lower-case letters"
	}
	src.Errorf(at, "runtime", hint, "%q is not the name of a container image", at.Value)
}
