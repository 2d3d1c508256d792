package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// maxEvent bounds what is kept of a server-sent event; a longer one is passed on all the same, and not read.
const maxEvent = 1 << 20

// tokens reads an answer that an OpenAI-like server streams: when its first token came, its last, and how many there were.
type tokens struct {
	began       time.Time
	first, last time.Time
	seen        int64 // events with some text
	counted     int64 // as the server says; 0 when it does not
	failed      bool
	line        []byte
	skipping    bool // the rest of a line that is too long
}

// read takes a part of the stream, which ends anywhere.
func (t *tokens) read(part []byte, now time.Time) {
	for len(part) > 0 {
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			t.keep(part)
			return
		}
		t.keep(part[:end])
		if !t.skipping {
			t.event(t.line, now)
		}
		t.line, t.skipping, part = t.line[:0], false, part[end+1:]
	}
}

func (t *tokens) keep(part []byte) {
	if t.skipping = t.skipping || len(t.line)+len(part) > maxEvent; !t.skipping {
		t.line = append(t.line, part...)
	}
}

// delta is an event of a stream, of chat completions, completions or responses.
type delta struct {
	Error   json.RawMessage `json:"error"`
	Type    string          `json:"type"`
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          string            `json:"content"`
			Reasoning        string            `json:"reasoning"`
			ReasoningContent string            `json:"reasoning_content"`
			ToolCalls        []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage struct {
		CompletionTokens int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// event reads a line. What is not an event of the protocol says nothing.
func (t *tokens) event(line []byte, now time.Time) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	var d delta
	if !ok || json.Unmarshal(data, &d) != nil {
		return
	}
	if len(d.Error) > 0 && string(d.Error) != "null" {
		t.failed = true
	}
	t.counted = max(t.counted, d.Usage.CompletionTokens)
	text := strings.HasSuffix(d.Type, ".delta")
	for _, c := range d.Choices {
		text = text || c.Text != "" || c.Delta.Content+c.Delta.Reasoning+c.Delta.ReasoningContent != "" || len(c.Delta.ToolCalls) > 0
	}
	if !text {
		return
	}
	if t.seen == 0 {
		t.first = now
	}
	t.last = now
	t.seen++
}

// firstToken is how long the first token took; false when there was none.
func (t *tokens) firstToken() (time.Duration, bool) {
	if t == nil || t.seen == 0 {
		return 0, false
	}
	return t.first.Sub(t.began), true
}

// perToken is how long each token after the first took; false when there was none.
func (t *tokens) perToken() (time.Duration, bool) {
	if t == nil || t.seen < 2 {
		return 0, false
	}
	return t.last.Sub(t.first) / time.Duration(max(t.counted, t.seen)-1), true
}
