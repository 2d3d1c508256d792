package pii

import "strings"

// ibanLengths has the length of account numbers by country (ISO 13616, the registry of SWIFT).
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28, "CH": 21,
	"CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18,
	"FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23,
	"IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27,
	"MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28,
	"PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
	"SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

// findIBANs finds bank accounts: a country code, the country's length, and the checksum of ISO 13616. Single spaces are allowed between
// characters.
func findIBANs(text string, yield func(int, int, string)) {
	for i := 0; i+4 <= len(text); i++ {
		if !isDigit(text[i+2]) || !isDigit(text[i+3]) || isAlnum(at(text, i-1)) {
			continue
		}
		length := ibanLengths[strings.ToUpper(text[i:i+2])]
		if length == 0 {
			continue
		}
		account, end := ibanAt(text, i, length)
		if len(account) == length && !isAlnum(at(text, end)) && ibanSum(account) == 1 {
			yield(i, end, account)
			i = end - 1
		}
	}
}

// ibanAt reads up to length letters and digits from i on.
func ibanAt(text string, i, length int) (account string, end int) {
	var b strings.Builder
	end = i
	for ; i < len(text) && b.Len() < length; i++ {
		switch c := text[i]; {
		case isAlnum(c):
			b.WriteByte(c)
			end = i + 1
		case c != ' ' || i > end:
			return "", end
		}
	}
	return strings.ToUpper(b.String()), end
}

// ibanSum returns the account modulo 97, with its first four characters moved to the end and A to Z read as 10 to 35.
func ibanSum(account string) int {
	sum := 0
	for _, c := range []byte(account[4:] + account[:4]) {
		if isDigit(c) {
			sum = (sum*10 + int(c-'0')) % 97
		} else {
			sum = (sum*100 + int(c-'A') + 10) % 97
		}
	}
	return sum
}
