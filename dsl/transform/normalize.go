package transform

// NormalizeText makes equal text equal bytes: Unicode normal form (UAX #15), no control or invisible characters, LF line ends. Joiners are
// kept where they change the appearance of a word or an emoji: in scripts that join their letters, at a virama, in emoji sequences.
type NormalizeText struct {
	// Fields to normalise.
	Fields []string `json:"fields"`
	// Form is the Unicode normal form: NFC (default) or NFKC.
	Form string `json:"form,omitempty" dsl:"enum=NFC|NFKC"`
	// Whitespace: collapse (default; single spaces, at most one empty line) or keep.
	Whitespace string `json:"whitespace,omitempty" dsl:"enum=collapse|keep"`
	// Mojibake: keep (default) or repair, which undoes UTF-8 that was read as Windows-1252 or ISO 8859-1 ("Ã©" for "é"). Only a whole text
	// is repaired, and only if its bytes are valid UTF-8 and the result is more plausible.
	Mojibake string `json:"mojibake,omitempty" dsl:"enum=keep|repair"`
	// Case: keep (default) or lower.
	Case string `json:"case,omitempty" dsl:"enum=keep|lower"`
	ErrorKeys
}
