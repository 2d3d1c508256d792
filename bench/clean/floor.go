package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluiceml/sluice/pipelines/text/mail"
)

// runFloor does a task as one would write it down: a loop over the lines, in one goroutine, with a set of the digests it has seen.
func runFloor(task, in, out string) error {
	paths, err := filepath.Glob(filepath.Join(in, "*.jsonl"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("read %s: %w", in, errors.Join(err, os.ErrNotExist))
	}
	clean := cleaners[task]
	if clean == nil {
		return fmt.Errorf("there is no task %q", task)
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		return err
	}
	seen := map[[sha256.Size]byte]struct{}{}
	return create(filepath.Join(out, "all.jsonl"), func(w *bufio.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, path := range paths {
			if err := eachLine(path, func(line []byte) error {
				var row map[string]any
				if err := json.Unmarshal(line, &row); err != nil {
					return err
				}
				key, keep, err := clean(row)
				if err != nil || !keep {
					return err
				}
				digest := sha256.Sum256([]byte(key))
				if _, twice := seen[digest]; twice {
					return nil
				}
				seen[digest] = struct{}{}
				return e.Encode(row)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachLine(path string, yield func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), 16<<20)
	for lines.Scan() {
		if err := yield(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return lines.Err()
}

// cleaners do a task's work on one row. They return what must differ from other rows, and whether the row is kept.
var cleaners = map[string]func(row map[string]any) (key string, keep bool, err error){
	"docs":  func(row map[string]any) (string, bool, error) { return cleanText(row, minDocument) },
	"lines": func(row map[string]any) (string, bool, error) { return cleanText(row, minLine) },
	"mail":  cleanMail,
	"exact": func(row map[string]any) (string, bool, error) { return row["text"].(string), true, nil },
}

func cleanText(row map[string]any, size int) (string, bool, error) {
	text := normalize(row["text"].(string))
	row["text"] = text
	return text, utf8.RuneCountInString(text) >= size, nil
}

func cleanMail(row map[string]any) (string, bool, error) {
	m, err := mail.Decode(row["text"].(string))
	if err != nil {
		return "", false, nil //nolint:nilerr // such a mail is rejected
	}
	delete(row, "text")
	row["subject"], row["from"], row["content_type"] = normalize(m.Subject), m.From, m.ContentType
	row["date"] = nil
	if !m.Date.IsZero() {
		row["date"] = m.Date.Format(time.RFC3339)
	}
	body := normalize(m.Body)
	row["body"] = body
	return body, body != "", nil
}

// normalize is NFC without control characters, with one space between words and no more than one empty line in a row.
func normalize(s string) string {
	s = norm.NFC.String(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\r':
			return '\n'
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n")))
	var lines []string
	for _, line := range strings.Split(s, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
