package shell

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestUnsetIsBounded: a stack that overflows ends the process.
func TestUnsetIsBounded(_ *testing.T) {
	for _, opens := range []string{"(", "$((", "${a:-", "$(", "! ", "if ", "`"} {
		for _, size := range []int{maxCode, 500_000} {
			_, _ = Unset(strings.Repeat(opens, size/len(opens)))
		}
	}
}

func TestUnset(t *testing.T) {
	for _, tt := range []struct {
		code  string
		want  []Read
		wrong *Fault
	}{
		{code: "ä=1; echo $ä $a ${b} ${a}", want: []Read{{"a", 13}, {"b", 16}}},
		{code: "echo ${a:-} $a; read -r b; echo $b; for c in 1; do echo $c $d; done", want: []Read{{"d", 59}}},
		{code: "echo '$a' \\$a \"$b\"", want: []Read{{"b", 15}}},
		{code: ". env.sh; echo $a"},
		{code: "command eval x; echo $a"},
		{code: "echo \"${a[0]}\" \"${!b*}\" $1 $@ $?"},
		{code: "echo $((n + $m))", want: []Read{{"m", 12}}},
		{code: "ü() {\n x\n", wrong: &Fault{4, "`{` has no `}`", "close it, with `;` or the end of a line before `}`"}},
		{code: "if a; then b", wrong: &Fault{0, "`if` has no `fi`", "write `fi` where it ends"}},
		{code: "cat <<A\nx\n", wrong: &Fault{4, "the here-document has no line `A`", "write that line where it ends, alone and not indented more than the script"}},
		{code: "echo $((1 $op 2))"},
		{code: "echo ${ date; }"},
	} {
		got, wrong := Unset(tt.code)
		if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.wrong, wrong); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.code, diff)
		}
	}
}

func TestReplaced(t *testing.T) {
	const word, want = "ä ${a} $${b} ${c}$${d}'", "ä XXXX ${b} XXXX${d}'"
	code, at := Replaced(word)
	if code != want {
		t.Errorf("%q, want %q", code, want)
	}
	for offset, from := range map[int]int{0: 0, 2: 2, utf8.RuneCountInString(code) - 1: utf8.RuneCountInString(word) - 1} {
		if got := at(offset); got != from {
			t.Errorf("the character %d was at %d, and not at %d", offset, from, got)
		}
	}
}

func TestBashCode(t *testing.T) {
	for _, tt := range []struct {
		words   []string
		at      int
		nounset bool
	}{
		{[]string{"bash", "-c", "x"}, 2, false},
		{[]string{"env", "A=1", "bash", "-euo", "pipefail", "-c", "x"}, 6, true},
		{[]string{"sh", "-o", "nounset", "-c", "x"}, 4, true},
		{[]string{"bash", "run.sh", "-c", "x"}, 0, false},
		{[]string{"zsh", "-c", "x"}, 0, false},
		{nil, 0, false},
	} {
		if at, nounset := BashCode(tt.words); at != tt.at || nounset != tt.nounset {
			t.Errorf("%q: %d, %t", tt.words, at, nounset)
		}
	}
}
