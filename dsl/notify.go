package dsl

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/spec"
)

// secretURL are the URLs of services in which the path is the password.
var secretURL = regexp.MustCompile(`^https://(hooks\.slack\.com/services|discord(app)?\.com/api/webhooks)/`)

// checkNotify reports mistakes in notifications, beyond wrong types.
func (c *checker) checkNotify() {
	for key, n := range document.Entries(c.root, "notify") {
		if n.Kind != yaml.MappingNode {
			continue
		}
		kind := decode.ExactlyOne[spec.Notification](c.src, key, n, "a notification")
		at := document.Lookup(n, kind)
		switch {
		case kind == "" || at.Kind != yaml.MappingNode:
		case kind == "email":
			c.checkEmail(document.KeyNode(n, kind), at)
		default:
			decode.ExactlyOne[spec.Webhook](c.src, document.KeyNode(n, kind), at, "a "+kind)
			c.checkWebURL(at, "url")
			if url := document.Lookup(at, "url"); url != nil && environment.IsWeb(url.Value) && !isComputed(at, "url") && !environment.IsOwnOrEncrypted(url.Value) {
				c.src.Errorf(url, "url", "use https", "a message to %q would not be encrypted, and is refused: http is only allowed on this machine", url.Value)
			}
			if url := document.Lookup(at, "url"); url != nil && secretURL.MatchString(url.Value) {
				c.src.Warnf(url, "secret", "write `url_secret: NAME`, and its source into the environment's `secrets`", "anyone who has this URL can post there, and a pipeline is not kept secret")
			}
			for _, name := range []string{"url_secret", "signing_secret"} {
				if secret := document.Lookup(at, name); secret != nil && !strings.Contains(secret.Value, "${") {
					c.checkSecret(secret, secret.Value)
				}
			}
		}
		if on := document.Lookup(n, "on"); on != nil && on.Kind == yaml.SequenceNode && len(on.Content) == 0 {
			c.src.Errorf(on, "required", "name events, or remove `on`", "the list of events is empty")
		} else if items := document.Items(on); len(items) > 0 && !slices.ContainsFunc(items, func(event *yaml.Node) bool { return c.happens(event.Value) }) {
			c.src.Warnf(items[0], "step", "add events such as `fail`", "no step of this pipeline can cause `%s`, so nobody is ever told", items[0].Value)
		}
	}
}

// happens reports whether a run may have an event, which need not be one.
func (c *checker) happens(event string) bool {
	return event != "hold" && event != "rollback" || len(c.unreadable) > 0 || slices.ContainsFunc(c.steps, func(s *step) bool {
		switch {
		case isA[*spec.ChildPipeline](s):
			return true
		case event == "rollback":
			return isA[*spec.Rollout](s)
		}
		return isA[*spec.Approval](s) || slices.ContainsFunc(s.Gate, func(g spec.Gate) bool { return g.OnFail == spec.OnFailHold })
	})
}

func (c *checker) checkEmail(key, n *yaml.Node) {
	to := document.Lookup(n, "to")
	items := document.Items(to)
	if to != nil && len(items) == 0 {
		c.src.Errorf(to, "required", "write `to: NAME@HOST`", "the list of addresses is empty")
	}
	for _, item := range items {
		if item.Kind == yaml.ScalarNode && !environment.IsMail(item.Value) {
			hint, mailto := "write NAME@HOST", strings.TrimPrefix(item.Value, "mailto:")
			if several := strings.FieldsFunc(item.Value, func(r rune) bool { return strings.ContainsRune(",; ", r) }); len(several) > 1 && to.Kind == yaml.ScalarNode {
				hint = "write [" + strings.Join(several, ", ") + "]"
			} else if environment.IsMail(mailto) {
				hint = "write " + mailto
			}
			c.src.Errorf(item, "address", hint, "%q is not an address", item.Value)
		}
	}
	if c.env != nil && c.env.SMTP.Host == "" {
		c.src.Errorf(key, "smtp", "add `smtp: {host: ..., from: ...}` to it", "the environment `%s` has no mail server", c.env.Name)
	}
}
