package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// files of each input, and how many of them are the part that slower programs are measured with.
const (
	files     = 16
	partFiles = 2
)

// words of a made up language, the frequent ones first and short; some need normalisation.
var words = func() []string {
	r := rand.New(rand.NewPCG(1, 1))
	list := make([]string, 20_000)
	for i := range list {
		var b strings.Builder
		for range 1 + int(math.Log2(float64(i+2))/4) + r.IntN(3) {
			b.WriteByte("bcdfghklmnprstvwz"[r.IntN(17)])
			b.WriteByte("aeiou"[r.IntN(5)])
			if r.IntN(60) == 0 {
				b.WriteString("\u0301") // an accent apart from its letter
			}
		}
		list[i] = b.String()
	}
	return list
}()

// prose appends words to about n bytes. A few breaks are of other kinds than one space.
func prose(b []byte, r *rand.Rand, n int) []byte {
	start := len(b)
	for len(b)-start < n {
		b = append(b, words[int(math.Exp(r.Float64()*math.Log(float64(len(words)-1))))]...)
		switch x := r.IntN(400); {
		case x == 0:
			b = append(b, "\u200b "...)
		case x < 4:
			b = append(b, "  "...)
		case x < 8:
			b = append(b, ".\r\n"...)
		case x < 16:
			b = append(b, ".\n\n"...)
		case x < 40:
			b = append(b, ". "...)
		default:
			b = append(b, ' ')
		}
	}
	return b
}

// document is what the inputs hold.
type document struct {
	ID     int    `json:"id"`
	Source string `json:"source"`
	Text   string `json:"text"`
}

// generate writes about so many MiB of JSON lines: one in ten has the text of an earlier one but for white space, one in twenty is too
// short to be kept. With near one in ten is an earlier one with a part of its words replaced.
func generate(dir string, mib, size int, near bool) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(7, uint64(size)))
	var earlier [1024]string
	id := 0
	for i := range files {
		err := create(filepath.Join(dir, fmt.Sprintf("%02d.jsonl", i)), func(w *bufio.Writer) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			for written := 0; written < mib<<20/files; id++ {
				text := earlier[r.IntN(len(earlier))]
				switch x := r.IntN(20); {
				case x < 2 && text != "":
					text = " " + text + "\n"
				case near && x < 4 && text != "":
					text = edit(text, r)
				case x == 4:
					text = string(prose(nil, r, size/8))
				default:
					text = string(prose(nil, r, size/2+r.IntN(size)))
					earlier[r.IntN(len(earlier))] = text
				}
				d := document{ID: id, Source: fmt.Sprint("site", id%100), Text: text}
				if err := e.Encode(d); err != nil {
					return err
				}
				written += len(text) + 45
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edit replaces up to a twelfth of a text's words.
func edit(text string, r *rand.Rand) string {
	list := strings.Split(text, " ")
	for range r.IntN(len(list)/12 + 1) {
		list[r.IntN(len(list))] = words[r.IntN(len(words))]
	}
	return strings.Join(list, " ")
}

func create(path string, write func(*bufio.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(w), w.Flush(), f.Close())
}

// fetchMail fetches the mail of examples/spam.
func fetchMail(ctx context.Context, dir string) error {
	program, err := filepath.Abs("examples/spam/fetch.py")
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "python3", program)
	cmd.Env = append(os.Environ(), "SLUICE_OUTPUT_DIR="+dir)
	if said, err := cmd.CombinedOutput(); err != nil {
		return &skipped{fmt.Errorf("the mail cannot be fetched: %w\n%s", err, said)}
	}
	return nil
}
