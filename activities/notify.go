package activities

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/notify"
	"github.com/sluiceml/sluice/internal/secret"
)

// Notifier has the activities that notify people and systems about runs.
type Notifier struct {
	// Engine loads the pipelines and environments of submissions, and Secrets resolves the secrets that these name.
	Engine  *engine.Engine
	Secrets *secret.Resolver
}

// Audience lists the receivers in the pipeline's `notify` that have subscribed to the event.
func (n *Notifier) Audience(ctx context.Context, in contract.NotifyInput) ([]string, error) {
	sub, err := n.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return nil, err
	}
	all := sub.Program.Pipeline().Notify
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(all[name].On, in.Event) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Send delivers a notification. It resolves the secrets that it needs and does not pass them on.
func (n *Notifier) Send(ctx context.Context, in contract.SendInput) error {
	sub, err := n.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	env := sub.Program.Environment()
	d := &delivery{
		ctx: ctx, env: env, secrets: n.Secrets, message: notify.New(notify.Message{
			ID: in.ID, Event: in.Event, Pipeline: in.Pipeline, Run: in.Run, Environment: env.Name, Text: in.Text, Time: in.At,
		}),
	}
	return d.typed(d.send(sub.Program.Pipeline().Notify[in.To]))
}

// delivery is one attempt at a notification.
type delivery struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one call of Send
	env     *spec.Environment
	secrets *secret.Resolver
	message notify.Message
	used    []string // values of secrets
}

func (d *delivery) send(to spec.Notification) error {
	switch {
	case to.Webhook != nil:
		address, err := d.value(to.Webhook.URL, to.Webhook.URLSecret)
		if err != nil {
			return err
		}
		key, err := d.value("", to.Webhook.SigningSecret)
		if err != nil {
			return err
		}
		return notify.Webhook(d.ctx, address, key, d.message)
	case to.Slack != nil:
		address, err := d.value(to.Slack.URL, to.Slack.URLSecret)
		if err != nil {
			return err
		}
		return notify.Slack(d.ctx, address, d.message)
	case to.Email != nil:
		password, err := d.value("", d.env.SMTP.PasswordSecret)
		if err != nil {
			return err
		}
		return notify.Mail(d.ctx, d.env.SMTP, password, to.Email.To, d.message)
	}
	return fault.New(fault.Invalid, "the pipeline no longer has this notification", nil)
}

// value returns the plain value in the pipeline, or else the value of the secret that the pipeline names; it is empty if there is neither.
func (d *delivery) value(plain, name string) (string, error) {
	if name == "" {
		return plain, nil
	}
	value, err := d.secrets.Value(d.ctx, d.env, name)
	d.used = append(d.used, value)
	return cmp.Or(value, plain), secret.Typed(err)
}

// typed converts the error of a delivery to the type that retries depend on, and masks secrets in it.
func (d *delivery) typed(err error) error {
	if _, known := fault.As(err); known || err == nil {
		return err
	}
	text := secret.NewMask(d.used...).Text(err.Error())
	if notify.Permanent(err) {
		return fault.New(fault.Invalid, text, nil)
	}
	return temporal.NewApplicationErrorWithOptions(text, fault.Infrastructure, temporal.ApplicationErrorOptions{
		NextRetryDelay: notify.After(err),
	})
}
