// Package notify delivers one message on a run to one place: a webhook, a chat or a mailbox. Trying again is the caller's matter; an
// error says whether it makes sense.
package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxText bounds a message's text in bytes; chats refuse much longer ones.
const MaxText = 4000

// Message is what is told, and the body that webhooks are sent: docs/notify.md is its description.
type Message struct {
	// Version of the body's form.
	Version int `json:"version"`
	// ID is the same when a message is sent again.
	ID string `json:"id"`
	// Event is start, hold, fail, success or rollback.
	Event       string `json:"event"`
	Pipeline    string `json:"pipeline"`
	Run         string `json:"run"`
	Environment string `json:"environment"`
	// Title is one line for people, Text what there is to say beyond it.
	Title string    `json:"title"`
	Text  string    `json:"text,omitempty"`
	Time  time.Time `json:"time"`
}

// New makes a message of what happened: it adds the version and the title, and bounds the text.
func New(m Message) Message {
	m.Version = 1
	m.Title = m.Pipeline + " " + cmp.Or(said[m.Event], m.Event)
	m.Text = Shorten(m.Text)
	m.Time = m.Time.UTC()
	return m
}

// said is what titles say of events.
var said = map[string]string{
	"start": "has started", "hold": "waits for a person", "fail": "has failed", "success": "has succeeded",
	"rollback": "has rolled a release back",
}

// Shorten cuts a text that is too long for a message.
func Shorten(text string) string {
	const more = " ..."
	if len(text) <= MaxText {
		return text
	}
	cut := MaxText - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// slack is the message in the form that Slack's incoming webhooks take, and those of Mattermost and others that speak it.
func (m Message) slack() ([]byte, error) {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	text := fmt.Sprintf("*%s*\nrun `%s`, environment `%s`", escape(m.Title), escape(m.Run), escape(m.Environment))
	if m.Text != "" {
		text += "\n```" + escape(m.Text) + "```"
	}
	return json.Marshal(map[string]string{"text": text})
}

// Error says why a message was not delivered.
type Error struct {
	Text string
	// Permanent: it would fail in the same way the next time.
	Permanent bool
	// After is how long the other side wants to be left alone; 0 when it does not say.
	After time.Duration
}

func (e *Error) Error() string { return e.Text }

// Permanent reports whether there is no sense in trying again.
func Permanent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Permanent
}

// After returns how long to wait before trying again, 0 when nobody said.
func After(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.After
	}
	return 0
}

func permanent(format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...), Permanent: true}
}

func temporary(format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...)}
}
