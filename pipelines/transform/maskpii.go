package transform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/pii"
)

// hashDigits is how many digits of a hash are put into the text: among a million addresses, the probability that two have the same is 1 in
// 37 million.
const hashDigits = 16

// maskPII compiles a MaskPII, which masks personal data and counts it.
func (c *Compiled) maskPII(config transform.MaskPII, given Deps) error {
	if len(config.Fields) == 0 {
		return errors.New("fields: name at least one")
	}
	if config.Kinds == nil {
		config.Kinds = pii.Kinds()
	}
	finder, err := pii.NewFinder(config.Kinds, config.Patterns)
	if err != nil {
		return err
	}
	action, err := rows.OneOf("action", config.Action, "mask", "hash", "drop")
	if err != nil {
		return err
	}
	with := maskLabel
	switch action {
	case "hash":
		key := given.Secrets[config.Key]
		if key == "" {
			return fmt.Errorf("key: the step has no secret %q; hashes without a key could be undone by trying", config.Key)
		}
		with = func(m pii.Match) string { return hashLabel(m, key) }
	case "drop":
		c.Rules = []string{c.name}
	}
	c.Masks = finder.Kinds()
	c.Count = func(r rows.Row, add func(space, name string)) error {
		texts, err := rows.TextFields(r, config.Fields)
		if err != nil {
			return err
		}
		drop := false
		for i, name := range config.Fields {
			matches := finder.Find(texts[i])
			for _, m := range matches {
				add(account.CountMasked, m.Kind)
			}
			drop = drop || action == "drop" && len(matches) > 0
			if r[name] != nil {
				r[name] = pii.Replace(texts[i], matches, with)
			}
		}
		if drop {
			return rows.ErrDropped
		}
		return nil
	}
	return nil
}

func maskLabel(m pii.Match) string { return "<" + strings.ToUpper(m.Kind) + ">" }

// hashLabel returns a label with a hash of the match's value. Only someone who knows the key can find a value for a hash.
func hashLabel(m pii.Match, key string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(m.Kind + "\x00" + m.Value))
	return "<" + strings.ToUpper(m.Kind) + ":" + hex.EncodeToString(h.Sum(nil))[:hashDigits] + ">"
}
