package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
)

// The characters that GitHub's workflow commands give a meaning to.
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// Annotations writes findings as workflow commands of GitHub Actions, which shows them beside the lines of a change.
func Annotations(w io.Writer, findings document.Diagnostics) error {
	out := writer{w: w}
	for _, d := range findings {
		properties := "title=" + commandProperty.Replace("sluice "+d.Code)
		if d.File != "" && d.Line > 0 {
			properties = fmt.Sprintf("file=%s,line=%d,col=%d,", commandProperty.Replace(d.File), d.Line, d.Col) + properties
		} else if d.File != "" {
			properties = "file=" + commandProperty.Replace(d.File) + "," + properties
		}
		out.line("::", string(d.Severity), " ", properties, "::", commandData.Replace(withHelp(d)))
	}
	return out.err
}
