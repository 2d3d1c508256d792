package format

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

	"github.com/sluiceml/sluice/pipelines/rows"
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
		if why := (*rows.Rejection)(nil); errors.As(rec.err, &why) {
			fields = []string{"!" + why.Reason}
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
		{"never closed", "a,b\n\"c,d\ne,f", [][]string{{"a", "b"}, {"!unclosed_quote"}, {"e", "f"}}},
		{"never closed in the last line", "a,b\nc,\"d\n", [][]string{{"a", "b"}, {"!unclosed_quote"}}},
		{"closed by another record's quote", "1,\"a\n2,b\n3,\"c\"\n4,d", [][]string{{"!bad_quote"}, {"2", "b"}, {"3", "c"}, {"4", "d"}}},
		{"closed by a record that goes on", "1,\"a\n2,b\n3,\"c\nd\"\n", [][]string{{"!bad_quote"}, {"2", "b"}, {"3", "c\nd"}}},
		{"one bad after the other", "\"a\n\"b\n\"c\nd", [][]string{{"!bad_quote"}, {"!bad_quote"}, {"!unclosed_quote"}, {"d"}}},
		{"bad before it goes on", "a\"b,\"c\nd\ne", [][]string{{"!bad_quote"}, {"d"}, {"e"}}},
		{"not UTF-8 below", "\"a\n\xff\nb\"c\nd", [][]string{{"!bad_quote"}, {"!bad_encoding"}, {"!bad_quote"}, {"d"}}},
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

// Of a record that is too long the first line alone is rejected, whatever it holds.
func TestCSVTooLong(t *testing.T) {
	long := strings.Repeat("x", rows.MaxSize+10)
	for name, test := range map[string]struct {
		record string
		want   []string
	}{
		"one line":         {long, []string{"!too_long"}},
		"quoted":           {`"` + long + `"`, []string{"!too_long"}},
		"line end after":   {`"` + long + "\na\"", []string{"!too_long", "!bad_quote"}},
		"line end before":  {"\"a\n" + long + "\"\nc", []string{"!too_long", "!too_long", "c"}},
		"many empty lines": {`"` + strings.Repeat("\n", rows.MaxSize+10) + "c", []string{"!too_long", "c"}},
		"not UTF-8":        {"\"a\n\xff" + long, []string{"!too_long", "!too_long"}},
	} {
		got, offsets := readCSV(t, "a\n"+test.record+"\nb\n", true)
		want := [][]string{{"a"}}
		for _, field := range append(test.want, "b") {
			want = append(want, []string{field})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if last := offsets[len(offsets)-1]; last != 2+int64(len(test.record))+1 {
			t.Errorf("%s: the last record is at %d, want %d", name, last, 2+len(test.record)+1)
		}
	}
}

// Of a file that is one chain of quotes that are never closed little is held, and it is read once or twice.
func TestCSVOpenQuotes(t *testing.T) {
	const records = 200_000
	lines, err := newLineReader(strings.NewReader(strings.Repeat("1,\"open\n", records)), utf8Charset)
	if err != nil {
		t.Fatal(err)
	}
	r := newCSVReader(lines, ",", true)
	for n := range records {
		rec, err := r.next()
		if err != nil || rec.err == nil || rec.offset != int64(n)*8 || string(rec.text) != "1,\"open" {
			t.Fatalf("record %d: at %d, %q, rejected %v, error %v", n, rec.offset, rec.text, rec.err, err)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end %v", err)
	}
	if cap(r.ahead.raw) > 1<<10 {
		t.Errorf("%d bytes are held", cap(r.ahead.raw))
	}
}

// The lines of a broken record are read again as they stand in the file, in any encoding.
func TestCSVOpenQuoteUTF16(t *testing.T) {
	var text []byte
	for _, r := range "a,\"b\nü,c\nd,\"e\"\n" {
		text = append(text, byte(r), byte(r>>8))
	}
	lines, err := newLineReader(bytes.NewReader(text), utf16LE)
	if err != nil {
		t.Fatal(err)
	}
	r := newCSVReader(lines, ",", true)
	var got []csvRecord
	for range 3 {
		rec, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, csvRecord{offset: rec.offset, fields: rec.fields, text: bytes.Clone(rec.text)})
		if (rec.err != nil) != (rec.offset == 0) {
			t.Errorf("at %d: %v", rec.offset, rec.err)
		}
	}
	got[0].fields = nil
	want := []csvRecord{
		{offset: 0, text: []byte("a,\"b")},
		{offset: 10, text: []byte("ü,c"), fields: []string{"ü", "c"}},
		{offset: 18, text: []byte("d,\"e\""), fields: []string{"d", "e"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(csvRecord{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Whatever quotes do, what is read are the records of a plain reading.
func TestCSVRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a\",\n\r"))).Draw(rt, "text")
		if got, _ := readCSV(t, text, true); len(got) != countRecords(text) {
			rt.Fatalf("%d records, want %d: %q", len(got), countRecords(text), got)
		}
	})
}

// FuzzCSV: no panic; the records are as many as a plain reading of each line by itself says, and those of encoding/csv where that takes the text.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n", "\"a\nb\",\"\"\"\"\r\n,", "\"a", "a\"b\n\"c\"d\n\n\r\n", "\xef\xbb\xbfa\n\xff", "a\r\r\n", "1,\"a\n2,b\n3,\"c\"\n", "\"a\n\"b\n\"c\nd", "\"\"\na\"\"\"\n\""} {
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

// countRecords counts records character by character. From each beginning it tries how far a record goes, and else takes a line.
func countRecords(text string) (records int) {
	for text != "" {
		lineText, below, _ := strings.Cut(text, "\n")
		if strings.TrimSuffix(lineText, "\r") == "" {
			text = below
			continue
		}
		records++
		if n := recordEnd(text); n >= 0 {
			below = strings.TrimPrefix(text[n:], "\n")
		}
		text = below
	}
	return records
}

// recordEnd is the length of the record that a text begins with, or -1 when it is none.
func recordEnd(text string) int {
	const start, plain, quoted, closed = 0, 1, 2, 3
	state := start
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case state == quoted && c == '"':
			state = closed
		case state == quoted:
		case state == closed && c == '"':
			state = quoted
		case c == '"' && state == start:
			state = quoted
		case c == '"':
			return -1
		case c == '\n':
			return i
		case c == ',':
			state = start
		case state == closed && (c != '\r' || i+1 < len(text) && text[i+1] != '\n'):
			return -1
		case state != closed:
			state = plain
		}
	}
	if state == quoted {
		return -1
	}
	return len(text)
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
		whole := File{Path: path, Name: "in", Size: size}
		read := func(pieces ...Piece) (found []Record) {
			for _, p := range pieces {
				err := file.Read(t.Context(), p, func(r Record) error {
					found = append(found, Record{Offset: r.Offset, Row: r.Row})
					return r.Rejected
				})
				if err != nil {
					rt.Fatal(err)
				}
			}
			return found
		}
		var pieces []Piece
		for start := int64(0); start < size; {
			end := min(size, start+rapid.Int64Range(1, 10).Draw(rt, "cut"))
			pieces = append(pieces, Piece{whole, start, end})
			start = end
		}
		want := read(Piece{whole, 0, size})
		if diff := cmp.Diff(want, read(pieces...), cmp.AllowUnexported(Record{})); diff != "" {
			rt.Fatalf("records (-want +got):\n%s", diff)
		}
	})
}
