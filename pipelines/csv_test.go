package pipelines

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// readCSV returns the records of a text, and of those that are none the reason: "!reason".
func readCSV(t testing.TB, text string, quotes bool) (records [][]string, offsets []int64) {
	t.Helper()
	lines, err := newLineReader(strings.NewReader(text), utf8Charset)
	if err != nil {
		t.Fatal(err)
	}
	r := newCSVReader(lines, ",", quotes)
	for {
		rec, err := r.next()
		if errors.Is(err, io.EOF) {
			return records, offsets
		} else if err != nil {
			t.Fatal(err)
		}
		fields := rec.fields
		if why := (*rejection)(nil); errors.As(rec.err, &why) {
			fields = []string{"!" + why.reason}
		}
		records, offsets = append(records, fields), append(offsets, rec.offset)
	}
}

func TestCSV(t *testing.T) {
	tests := []struct {
		name, text string
		want       [][]string
	}{
		{"plain", "a,b\nc,d\n", [][]string{{"a", "b"}, {"c", "d"}}},
		{"no line end at the end", "a,b\nc,d", [][]string{{"a", "b"}, {"c", "d"}}},
		{"CRLF", "a,b\r\nc,d\r\n", [][]string{{"a", "b"}, {"c", "d"}}},
		{"empty fields", ",\n,,\na,\n", [][]string{{"", ""}, {"", "", ""}, {"a", ""}}},
		{"empty lines", "\na\n\r\n\nb\n\n", [][]string{{"a"}, {"b"}}},
		{"empty quotes", `""` + "\n" + `"",""`, [][]string{{""}, {"", ""}}},
		{"quoted delimiter", `"a,b",c`, [][]string{{"a,b", "c"}}},
		{"quoted line end", "\"a\nb\",c\nd,\"\n\"\n", [][]string{{"a\nb", "c"}, {"d", "\n"}}},
		{"quoted CRLF", "\"a\r\nb\",c\r\n", [][]string{{"a\r\nb", "c"}}},
		{"doubled quotes", `"say ""hi""",""""`, [][]string{{`say "hi"`, `"`}}},
		{"doubled quote at a line end", "\"a\"\"\n\"\"b\"", [][]string{{"a\"\n\"b"}}},
		{"spaces stay", " a , \"b\"", [][]string{{"!bad_quote"}}},
		{"quote inside", "a\"b,c\nd,e", [][]string{{"!bad_quote"}, {"d", "e"}}},
		{"after a quote", "\"a\"b,c\nd,e", [][]string{{"!bad_quote"}, {"d", "e"}}},
		{"never closed", "a,b\n\"c,d\ne,f", [][]string{{"a", "b"}, {"!unclosed_quote"}}},
		{"lone CR", "a\rb,c", [][]string{{"a\rb", "c"}}},
		{"not UTF-8", "a\xff,b\nc,d", [][]string{{"!bad_encoding"}, {"c", "d"}}},
		{"not UTF-8 in quotes", "\"\xff\n\",b\nc,d", [][]string{{"!bad_encoding"}, {"c", "d"}}},
		{"mark", "\xef\xbb\xbfa,b", [][]string{{"a", "b"}}},
		{"nothing", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := readCSV(t, test.text, true)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	got, offsets := readCSV(t, "\"a\nb,\"\"\nc", false)
	if diff := cmp.Diff([][]string{{`"a`}, {"b", `""`}, {"c"}}, got); diff != "" {
		t.Errorf("without quotes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 3, 8}, offsets); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
}

// After a record that is too long the next one is found, also when the long one holds quotes and line ends.
func TestCSVTooLong(t *testing.T) {
	long := strings.Repeat("x", maxRow+10)
	for name, record := range map[string]string{
		"one line": long, "quoted": `"` + long + `"`, "line end after": `"` + long + "\na,b\"", "line end before": "\"a,\n" + long + `",c`,
		"many lines": `"` + strings.Repeat("\n", maxRow+10) + `"`, "quotes in the end": `"` + long + `""` + "\n" + `b"`,
	} {
		got, offsets := readCSV(t, "a\n"+record+"\nb\n", true)
		if diff := cmp.Diff([][]string{{"a"}, {"!too_long"}, {"b"}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]int64{0, 2, 2 + int64(len(record)) + 1}, offsets); diff != "" {
			t.Errorf("%s: offsets (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzCSV: no panic; the records are as many as a plain count says, and those of encoding/csv where that takes the text.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n", "\"a\nb\",\"\"\"\"\r\n,", "\"a", "a\"b\n\"c\"d\n\n\r\n", "\xef\xbb\xbfa\n\xff", "a\r\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if bytes.HasPrefix([]byte(text), []byte("\xff\xfe")) || bytes.HasPrefix([]byte(text), []byte("\xfe\xff")) {
			return // another encoding
		}
		got, _ := readCSV(t, text, true)
		plain := strings.TrimPrefix(text, "\xef\xbb\xbf")
		if want := countRecords(plain); len(got) != want {
			t.Fatalf("%d records, want %d", len(got), want)
		}
		theirs := csv.NewReader(strings.NewReader(plain))
		theirs.FieldsPerRecord = -1
		want, err := theirs.ReadAll()
		if err != nil {
			return
		}
		for i, fields := range got {
			if fields[0] == "!bad_encoding" {
				continue
			}
			for j := range fields { // they make CRLF in a field LF
				fields[j] = strings.ReplaceAll(fields[j], "\r\n", "\n")
			}
			if diff := cmp.Diff(want[i], fields); diff != "" {
				t.Fatalf("record %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// countRecords counts records character by character.
func countRecords(text string) int {
	records := 0
	quoted, fresh, blank, cr := false, true, true, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '"' && i+1 < len(text) && text[i+1] == '"':
			i++
		case quoted:
			quoted = c != '"'
		case c == '\n':
			if !blank {
				records++
			}
			fresh, blank, cr = true, true, false
		case fresh && c == '"':
			quoted, fresh, blank = true, false, false
		default:
			if blank && c == '\r' && !cr {
				cr, fresh = true, false // of an empty line, if the line ends here
				continue
			}
			fresh, blank = c == ',', false
		}
	}
	if !blank {
		records++
	}
	return records
}

// However a file without quotes is cut, each record is read once.
func TestCSVPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	file := csvFile{textFile{utf8Charset}, ",", false, nil}
	rapid.Check(t, func(rt *rapid.T) {
		text := "name\n" + rapid.StringOf(rapid.SampledFrom([]rune("ab\n\r\n"))).Draw(rt, "text")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			rt.Fatal(err)
		}
		size := int64(len(text))
		whole := inputFile{Path: path, Name: "in", Size: size}
		read := func(pieces ...piece) (found []record) {
			for _, p := range pieces {
				err := file.read(t.Context(), p, func(r record) error {
					found = append(found, record{offset: r.offset, row: r.row})
					return r.rejected
				})
				if err != nil {
					rt.Fatal(err)
				}
			}
			return found
		}
		var pieces []piece
		for start := int64(0); start < size; {
			end := min(size, start+rapid.Int64Range(1, 10).Draw(rt, "cut"))
			pieces = append(pieces, piece{whole, start, end})
			start = end
		}
		want := read(piece{whole, 0, size})
		if diff := cmp.Diff(want, read(pieces...), cmp.AllowUnexported(record{})); diff != "" {
			rt.Fatalf("records (-want +got):\n%s", diff)
		}
	})
}
