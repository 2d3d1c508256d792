package format

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// readAll reads the lines of what is in a file: "offset text" or "offset ! message".
func readAll(t testing.TB, data []byte, encoding, onInvalid string) (offsets []int64, texts, errs []string) {
	t.Helper()
	set, err := compileCharset(encoding, onInvalid)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openContent(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	lines, err := newLineReader(c, set)
	if err != nil {
		t.Fatal(err)
	}
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return offsets, texts, errs
		} else if err != nil {
			t.Fatal(err)
		}
		message := ""
		if l.err != nil {
			message = l.err.Error()
		}
		offsets, texts, errs = append(offsets, l.offset), append(texts, string(l.text)), append(errs, message)
	}
}

func encoded(t testing.TB, name, text string) string {
	t.Helper()
	set, err := charsetNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	if set.encoding == nil {
		return text
	}
	out, err := set.encoding.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEncodings(t *testing.T) {
	tests := []struct {
		name, encoding, data string
		texts                []string
		offsets              []int64
		errs                 []string
	}{
		{"utf-8", "", "größe\n\nひらがな\nlast", []string{"größe", "", "ひらがな", "last"}, []int64{0, 8, 9, 22}, []string{"", "", "", ""}},
		{"mark", "", "\xef\xbb\xbfa\nb", []string{"a", "b"}, []int64{3, 5}, []string{"", ""}},
		{"mark wins", "windows-1252", "\xef\xbb\xbf\xc3\xa4", []string{"ä"}, []int64{3}, []string{""}},
		{"latin", "ISO-8859-1", "gr\xf6\xdfe\n\xe4", []string{"größe", "ä"}, []int64{0, 6}, []string{"", ""}},
		{"windows", "windows-1252", "\x80 1\r\n", []string{"€ 1\r"}, []int64{0}, []string{""}},
		{"shift_jis", "Shift_JIS", encoded(t, "Shift_JIS", "ソ|表\nb"), []string{"ソ|表", "b"}, []int64{0, 6}, []string{"", ""}},
		{"gb18030", "GB18030", encoded(t, "GB18030", "中\uFFFD\n文"), []string{"中\uFFFD", "文"}, []int64{0, 7}, []string{"", ""}},
		{"iso-2022-jp", "ISO-2022-JP", encoded(t, "ISO-2022-JP", "ひ") + "\nb", []string{"ひ", "b"}, []int64{0, 9}, []string{"", ""}},
		{"utf-16 by mark", "", "\xff\xfe" + encoded(t, "UTF-16LE", "Ċ\nਊ\nb"), []string{"Ċ", "ਊ", "b"}, []int64{2, 6, 10}, []string{"", "", ""}},
		{"utf-16be", "UTF-16BE", encoded(t, "UTF-16BE", "Ċ\nਊ\nb"), []string{"Ċ", "ਊ", "b"}, []int64{0, 4, 8}, []string{"", "", ""}},
		{"not utf-8", "", "a\nb\xffc\nd", []string{"a", "b\uFFFDc", "d"}, []int64{0, 2, 6}, []string{"", "bad_encoding: byte 0xff at offset 3 is not valid UTF-8", ""}},
		{"not shift_jis", "Shift_JIS", "a\n\x82\xa0\x82\x20\n", []string{"a", "あ\uFFFD "}, []int64{0, 2}, []string{"", "bad_encoding: byte 0x82 at offset 4 is not valid Shift_JIS"}},
		{"half a character", "UTF-16LE", "a\x00\n\x00b", []string{"a", "\uFFFD"}, []int64{0, 4}, []string{"", "bad_encoding: byte 0x62 at offset 4 is not valid UTF-16LE"}},
		{"lone surrogate", "UTF-16LE", "a\x00\x00\xd8b\x00", []string{"a\uFFFDb"}, []int64{0}, []string{"bad_encoding: byte 0x00 at offset 2 is not valid UTF-16LE"}},
		{"empty", "", "", nil, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			offsets, texts, errs := readAll(t, []byte(test.data), test.encoding, "")
			if diff := cmp.Diff(test.texts, texts); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.offsets, offsets); diff != "" {
				t.Errorf("offsets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.errs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
	_, texts, errs := readAll(t, []byte("a\xffb"), "", "replace")
	if want := []string{"a\uFFFDb", ""}; texts[0] != want[0] || errs[0] != want[1] {
		t.Errorf("replacing: got %q, %q", texts, errs)
	}
}

func TestUnknownEncoding(t *testing.T) {
	for _, name := range []string{"klingon", "UTF-7", "IBM037", "UTF-32"} {
		if _, err := compileCharset(name, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// compressed packs each part as a member or frame of its own.
func compressed(t testing.TB, form string, parts ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, part := range parts {
		var w io.WriteCloser
		switch form {
		case "gzip":
			w = gzip.NewWriter(&out)
		case "zstd":
			z, err := zstd.NewWriter(&out)
			if err != nil {
				t.Fatal(err)
			}
			w = z
		}
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// bzipped is "a\nb\n" as bzip2 packs it; Go has no writer of it.
const bzipped = "BZh91AY&SY\x3c\x85A\x12\x00\x00\x01A\x00\x00\x10\x30\x00 \x00\x30\xcc\x0cz\x82qw$S\x85\x09\x03\xc8T\x11\x20"

func TestCompression(t *testing.T) {
	for _, form := range []string{"gzip", "zstd"} {
		t.Run(form, func(t *testing.T) {
			offsets, texts, errs := readAll(t, compressed(t, form, "a\nb", "c\n", "", "d"), "", "")
			if diff := cmp.Diff([]string{"a", "bc", "d"}, texts); diff != "" {
				t.Errorf("all members (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]int64{0, 2, 5}, offsets); diff != "" {
				t.Errorf("offsets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"", "", ""}, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// A zstd file may begin with a frame to skip.
func TestSkippableFrame(t *testing.T) {
	for _, first := range []byte{0x50, 0x5f} {
		data := append([]byte{first, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', '\n', 'y'}, compressed(t, "zstd", "a\nb")...)
		_, texts, errs := readAll(t, data, "", "")
		if !cmp.Equal(texts, []string{"a", "b"}) || !cmp.Equal(errs, []string{"", ""}) {
			t.Errorf("%x: %q, %q", first, texts, errs)
		}
	}
	if _, texts, _ := readAll(t, []byte("P*M"), "", ""); !cmp.Equal(texts, []string{"P*M"}) {
		t.Errorf("text: %q", texts)
	}
}

func TestBzip2(t *testing.T) {
	_, texts, _ := readAll(t, []byte(bzipped+bzipped), "", "")
	if diff := cmp.Diff([]string{"a", "b", "a", "b"}, texts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, texts, errs := readAll(t, []byte(bzipped+bzipped[:30]), "", "")
	if want := "damaged: the bzip2 data ends unexpectedly after"; len(texts) != 3 || !strings.HasPrefix(errs[2], want) {
		t.Errorf("cut off: %q, %q", texts, errs)
	}
}

// Text that begins as bzip2 does is text.
func TestTextLikeBzip2(t *testing.T) {
	for _, text := range []string{"BZh", "BZh9", "BZhe is a name", "BZh91AY&S", "BZh01AY&SY and more"} {
		_, texts, errs := readAll(t, []byte(text+"\n"), "", "")
		if !cmp.Equal(texts, []string{text}) || errs[0] != "" {
			t.Errorf("%q is read as %q, %q", text, texts, errs)
		}
	}
}

// Wherever a compressed file is cut or broken, what is read is the start of what was in it, and the last row says what happened.
func TestDamage(t *testing.T) {
	var lines []string
	for i := range 2000 {
		lines = append(lines, strings.Repeat(string(rune('a'+i%26)), i%97))
	}
	text := strings.Join(lines, "\n")
	for _, form := range []string{"gzip", "zstd"} {
		whole := compressed(t, form, text[:len(text)/2], text[len(text)/2:])
		for cut := 4; cut < len(whole); cut += 1 + len(whole)/150 {
			_, texts, errs := readAll(t, whole[:cut], "", "")
			last := len(texts) - 1
			if last < 0 {
				t.Fatalf("%s cut at %d: nothing says so", form, cut)
			}
			atMember := cut == len(compressed(t, form, text[:len(text)/2]))
			if !strings.HasPrefix(errs[last], "damaged: the "+form) && !atMember {
				t.Errorf("%s cut at %d: the last error is %q", form, cut, errs[last])
			}
			if diff := cmp.Diff(lines[:last], texts[:last:last]); diff != "" && last > 0 {
				t.Errorf("%s cut at %d: rows (-want +got):\n%s", form, cut, diff)
			}
			if !strings.HasPrefix(lines[last], texts[last]) {
				t.Errorf("%s cut at %d: the last row is %q, not the start of %q", form, cut, texts[last], lines[last])
			}
		}
		broken := bytes.Clone(whole)
		broken[len(broken)/3] ^= 0xff
		if _, _, errs := readAll(t, broken, "", ""); !strings.HasPrefix(errs[len(errs)-1], "damaged: the "+form+" data is corrupt before byte ") {
			t.Errorf("%s with a broken byte: %q", form, errs[len(errs)-1])
		}
	}
}

// A disk or a network that fails is not what is wrong with the data.
func TestFailureIsNoDamage(t *testing.T) {
	lost := errors.New("connection lost")
	whole := compressed(t, "gzip", strings.Repeat("abc\n", 1000))
	c, err := openContent(io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failed{lost}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err = io.Copy(io.Discard, c); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

// FuzzLines: no panic; the lines are those between the line feeds, each decoded, none lost.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\xff"), "")
	f.Add([]byte("\xff\xfea\x00\n\x00"), "")
	f.Add([]byte("\x82\xa0\n\x82"), "Shift_JIS")
	f.Add([]byte("\x1b$B$R\x1b(B\n\x1b"), "ISO-2022-JP")
	f.Add([]byte("\x1f\x8b\x08"), "")
	f.Add([]byte("\x28\xb5\x2f\xfd\n"), "")
	f.Add([]byte("BZh9\n"), "")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		set, err := compileCharset(name, "")
		if err != nil {
			return
		}
		c, err := openContent(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		compressed := c.compression != ""
		c.close()
		offsets, texts, errs := readAll(t, data, name, "")
		if compressed {
			return
		}
		set, mark := set.detect(data)
		want := naiveLines(data[mark:], set)
		if len(want) != len(offsets) {
			t.Fatalf("%d lines, want %d", len(offsets), len(want))
		}
		for i, raw := range want {
			if set.encoding == nil && errs[i] == "" && texts[i] != raw {
				t.Errorf("line %d is %q, want %q", i, texts[i], raw)
			}
		}
	})
}

// naiveLines splits by code units.
func naiveLines(data []byte, set charset) []string {
	var lines []string
	start := 0
	for i := 0; i+set.width <= len(data); i += set.width {
		lf := data[i] == '\n'
		if set.width == 2 {
			lf = bytes.Equal(data[i:i+2], []byte{'\n', 0}) && !set.bigEndian || bytes.Equal(data[i:i+2], []byte{0, '\n'}) && set.bigEndian
		}
		if lf {
			lines = append(lines, string(data[start:i]))
			start = i + set.width
		}
	}
	if start < len(data) {
		lines = append(lines, string(data[start:]))
	}
	return lines
}
