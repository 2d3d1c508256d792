package document

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// misread are the codes of the findings of a value that is none of those its key takes.
var misread = []string{"type", "enum", "range", "share", "duration", "size", "timestamp"}

// DropFollowing removes the findings that follow from a value that could not be read: in the same mapping they name its key, such as one that
// wants `rule: tolerance` where the `rule` is misspelt.
func (s *Source) DropFollowing(root *yaml.Node) {
	wrong := map[[2]int][]string{}
	for _, d := range s.Findings {
		if d.Severity == SeverityError && slices.Contains(misread, d.Code) {
			wrong[[2]int{d.Line, d.Col}] = append(wrong[[2]int{d.Line, d.Col}], d.Message)
		}
	}
	if len(wrong) > 0 {
		s.dropFollowing(root, wrong, root.Line)
	}
}

// dropFollowing does so in a value that begins at a line, which may be that of its key.
func (s *Source) dropFollowing(n *yaml.Node, wrong map[[2]int][]string, first int) {
	for i, value := range n.Content {
		if n.Kind != yaml.MappingNode {
			s.dropFollowing(value, wrong, value.Line)
			continue
		}
		if i%2 == 0 {
			continue
		}
		key := n.Content[i-1]
		s.dropFollowing(value, wrong, key.Line)
		place, named := [2]int{value.Line, value.Column}, "`"+key.Value+": "
		isUnread := func(message string) bool { return !strings.Contains(message, named) }
		if value.Kind != yaml.ScalarNode || !slices.ContainsFunc(wrong[place], isUnread) {
			continue
		}
		last := lastLine(n)
		s.Findings = slices.DeleteFunc(s.Findings, func(d Diagnostic) bool {
			isOwn := d.Line == value.Line && d.Col == value.Column
			return d.Line >= first && d.Line <= last && (strings.Contains(d.Message, named) || !isOwn && strings.Contains(d.Hint, named))
		})
	}
}
