package script_test

import (
	"testing"
	"unicode"

	"github.com/sluiceml/sluice/pipelines/text/script"
)

func TestUnspaced(t *testing.T) {
	for text, want := range map[string]bool{
		"aÉßñ": false, "жё": false, "αώ": false, "עברית": false, "سلام": false, "हिन्दी": false, "বাংলা": false, "தமிழ்": false, "한국어": false, "ქართული": false,
		"አማርኛ": false, "བོད": false, "ᠮᠣᠩᠭᠣᠯ": false, "0۵५": false,
		"中文々〆〇𠀀": true, "ひらがな": true, "カタカナー": true, "ﾊﾝｶｸｰ": true, "ㄅㄆㄇ": true, "ไทยก็": true, "ລາວ": true, "ខ្មែរ": true, "မြန်မာ": true, "ꆈꌠ": true,
	} {
		for _, r := range text {
			if got := script.Unspaced(r); got != want && !unicode.In(r, unicode.Inherited) {
				t.Errorf("%c (%U): %v", r, r, got)
			}
		}
	}
}
