package transform

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// MaskPII replaces personal data in text, and counts it by kind in the output `masked`. It is conservative: a card number needs a network's
// prefix and the check digit, an account number its country's length and checksum, and a telephone number needs + or 00 with the country
// code, or the form used in North America. E-mail addresses may have letters of any script, a local part in quotes ("john doe"@example.com)
// and a full-width ＠; numbers may have the digits of any script. It does not find names, addresses that are written in words (ann at example dot org) or with HTML entities
// (HtmlToText decodes them), or addresses without a dot in the domain. It searches only texts that are fields of the row, not texts inside
// lists and objects.
type MaskPII struct {
	// Fields to mask.
	Fields []string `json:"fields"`
	// Kinds of personal data: email, phone, ip (of versions 4 and 6), card and iban. Default: all.
	Kinds []string `json:"kinds,omitempty" dsl:"enum=email|phone|ip|card|iban"`
	// Patterns are regular expressions (RE2) for your own kinds, by name. They take precedence over the other kinds.
	Patterns map[string]string `json:"patterns,omitempty" dsl:"names,raw"`
	// Action: mask (default; <EMAIL> replaces an address), hash (<EMAIL:16 hexadecimal digits>, the same for the same address and key) or
	// drop, which drops the row.
	Action string `json:"action,omitempty" dsl:"enum=mask|hash|drop"`
	// Key is the variable under the step's `secrets` that holds the key of the hashes (HMAC-SHA-256).
	Key string `json:"key,omitempty" dsl:"literal"`
	ErrorKeys
}

// HashKeys are the variables of the secrets that a cleaning's hashes are made with, sorted.
func HashKeys(spec *spec.Clean) ([]string, error) {
	configs, _, err := configsOf[MaskPII](spec, Is[MaskPII])
	if err != nil {
		return nil, err
	}
	var all []string
	for _, config := range configs {
		if config.Key != "" {
			all = append(all, config.Key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// piiKinds are the kinds that MaskPII knows.
var piiKinds = []string{"email", "phone", "ip", "card", "iban"}

// Check demands patterns that can be read and a key where one is needed.
func (MaskPII) Check(r document.Reporter, in StepFacts, config *yaml.Node) {
	for name, n := range document.Entries(config, "patterns") {
		if slices.Contains(piiKinds, name.Value) {
			r.Errorf(name, "duplicate", "give the pattern another name", "`%s` is already a built-in kind", name.Value)
		}
		if n.Kind != yaml.ScalarNode {
			continue
		}
		if p, err := regexp.Compile(n.Value); err != nil {
			r.Errorf(n, "syntax", "", "this is not a valid regular expression: %s", spec.RegexpProblem(err))
		} else if p.MatchString("") {
			r.Errorf(n, "syntax", "", "this pattern matches the empty string, which is everywhere")
		}
	}
	key, action := document.Lookup(config, "key"), document.Lookup(config, "action")
	hashes := action != nil && action.Value == "hash"
	switch {
	case hashes && key == nil:
		r.Errorf(action, "required", "add `key: VARIABLE`, and `secrets: {VARIABLE: NAME}` to the step", "`hash` needs a `key`")
	case !hashes && key != nil:
		r.Errorf(document.KeyNode(config, "key"), "unknown-key", "write `action: hash`, or remove it", "`key` is only used by `hash`")
	case key != nil && !slices.Contains(in.Secrets, key.Value):
		hint := suggest.Hint(key.Value, in.Secrets)
		if hint == "" {
			hint = "add `secrets: {" + key.Value + ": NAME}` to the step"
		}
		r.Errorf(key, "secret", hint, "the step has no secret `%s`", key.Value)
	}
}

// Counts implements Counter: it counts what it finds by its kind.
func (MaskPII) Counts(to Counts, label string, config *yaml.Node) {
	if document.TextAt(config, "action") == "drop" {
		to.add("rules", label)
	}
	kinds := valuesBelow(document.Lookup(config, "kinds"))
	if len(kinds) == 0 {
		kinds = slices.Clone(piiKinds)
	}
	for name := range document.Entries(config, "patterns") {
		kinds = append(kinds, name.Value)
	}
	to.add("masked", kinds...)
}
