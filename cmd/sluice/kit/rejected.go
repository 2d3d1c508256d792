package kit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/human"
)

// What is read of a dead letter to say why rows were rejected, and how much of it is said.
const (
	maxRejectedRead = 128 << 20
	maxDamagedShown = 10
	maxMessageShown = 201
	maxRowShown     = 101
)

// Rejected is what a person should know of a dead letter without opening it.
type Rejected struct {
	// First is the first case of each reason, by its name in the account: the file, the message and the row.
	First map[string]string
	// damaged are messages about files that cannot be read to their end, by file.
	damaged map[string]string
}

// RejectedFile is the name of a dead letter's file.
const RejectedFile = "rejected.jsonl"

// ReadRejected looks into a dead letter until it has seen a case of each reason, or enough. Of the reason all every case is looked at;
// empty for none. It is that of damaged files.
func ReadRejected(deadLetter io.Reader, reasons map[string]int64, all string) (Rejected, error) {
	why := Rejected{First: map[string]string{}, damaged: map[string]string{}}
	damaged := int64(0)
	for name, n := range reasons {
		if all != "" && strings.HasSuffix(name, "/"+all) {
			damaged += n
		}
	}
	list := json.NewDecoder(bufio.NewReader(io.LimitReader(deadLetter, maxRejectedRead)))
	for len(why.First) < len(reasons) || damaged > 0 {
		var r struct {
			Element                            json.RawMessage
			Transform, Reason, Message, Source string
		}
		err := list.Decode(&r)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return why, nil
		case err != nil:
			return why, fmt.Errorf("read the rejected rows: %w", err)
		}
		if name := r.Transform + "/" + r.Reason; why.First[name] == "" {
			why.First[name] = shownMessage(r.Source+": "+r.Message) + shownRow(r.Element)
		}
		if all != "" && r.Reason == all {
			damaged--
			why.damaged[r.Source] = r.Message
		}
	}
	return why, nil
}

// Text writes the first case of each reason.
func (w Rejected) Text(out io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(w.First)) {
		if _, err := fmt.Fprintf(out, "  %s: %s\n", human.Printable(name), w.First[name]); err != nil {
			return err
		}
	}
	return nil
}

// Warn writes about files that are damaged, which one would not see among many rejected rows.
func (w Rejected) Warn(out io.Writer) {
	for i, name := range slices.Sorted(maps.Keys(w.damaged)) {
		if i == maxDamagedShown {
			fmt.Fprintf(out, "warning: %d more files are damaged\n", len(w.damaged)-i) //nolint:errcheck // not the result
			return
		}
		fmt.Fprintf(out, "warning: %s is damaged: %s\n", human.Printable(name), shownMessage(w.damaged[name])) //nolint:errcheck // not the result
	}
}

// shownRow is the row of a case, since few messages quote the value that is wrong. What could not be read as a row is a text.
func shownRow(element json.RawMessage) string {
	row := string(element)
	var text string
	if json.Unmarshal(element, &text) == nil {
		row = text
	}
	if strings.TrimSpace(row) == "" {
		return ""
	}
	return "; row: " + human.Cut(human.Line(strings.ReplaceAll(row, "\n", " ")), maxRowShown)
}

func shownMessage(text string) string {
	return human.Cut(human.Line(text), maxMessageShown)
}
