package dsl

import (
	"strings"
	"testing"
)

func TestMistake(t *testing.T) {
	for query, says := range map[string]string{
		"":                          "empty",
		"x[5m]":                     "one number",
		`x{a="b"}[5m:1m] offset 1h`: "one number",
		"x[5m] @ end()":             "one number",
		"rate(x[$__rate_interval])": "`$__rate_interval`",
		"max(x":                     "closing `)`",
		"max x)":                    "`)` closes nothing",
		"max(x[5m)]":                "`)` closes nothing",
		`x{a="b}`:                   "closing \"",
		"max(x)":                    "",
		"rate(x[5m])":               "",
		`max(x{a="]$y", b='\'(', c=~` + "`\\d{`" + `})`: "",
		"x offset 5m":                             "",
		"sum(a[5m:]) / on() b # (per second":      "",
		`sum(rate(x{release="$candidate"}[10m]))`: "",
		"errors_$candidate":                       "",
	} {
		if got, _ := queryMistake(query, "$candidate"); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", query, got, says)
		}
	}
}

func FuzzMistake(f *testing.F) {
	f.Add("max(x{a=\"b\"}[5m])")
	f.Fuzz(func(_ *testing.T, query string) { queryMistake(query) })
}
