package view

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/sluiceml/sluice/dsl/document"
)

// The parts of a SARIF 2.1.0 log that findings need.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Full  sarifText `json:"fullDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
	}
	sarifRegion struct {
		StartLine   int       `json:"startLine"`
		StartColumn int       `json:"startColumn"`
		EndColumn   int       `json:"endColumn"`
		Snippet     sarifText `json:"snippet"`
	}
)

// SARIF writes findings in the format that code scanning services read. The rules are the codes that occur.
func SARIF(w io.Writer, version string, findings document.Diagnostics) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "sluice", Version: version, Rules: []sarifRule{}}
	index := map[string]int{}
	for _, d := range findings {
		if _, ok := index[d.Code]; !ok {
			code, _, _ := document.Explain(d.Code)
			index[d.Code] = len(index)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{d.Code, sarifText{code.Title}, sarifText{code.Text}})
		}
		result := sarifResult{RuleID: d.Code, RuleIndex: index[d.Code], Level: string(d.Severity), Message: sarifText{withHelp(d)}}
		if d.File != "" {
			var at sarifLocation
			at.Physical.Artifact.URI = fileURI(d.File)
			if d.Line > 0 {
				at.Physical.Region = &sarifRegion{d.Line, d.Col, endColumn(d), sarifText{d.Source}}
			}
			result.Locations = []sarifLocation{at}
		}
		run.Results = append(run.Results, result)
	}
	return JSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// endColumn is behind the word that a finding is at; where it is at none, behind one character.
func endColumn(d document.Diagnostic) int {
	word := 0
	for at, r := range []rune(d.Source) {
		switch {
		case at < d.Col-1-d.From:
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-", r):
			word++
			continue
		default:
			return d.Col + max(word, 1)
		}
	}
	return d.Col + max(word, 1)
}

// withHelp is a finding's message with what to do.
func withHelp(d document.Diagnostic) string {
	if d.Hint == "" {
		return d.Message
	}
	return d.Message + "\nhelp: " + d.Hint
}

// fileURI is a path as a reference; a relative one stays relative.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}
