package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// published are the names of the maps of what is published: their keys are NAME or NAME@TAG.
var published = map[string]struct{ tag, command string }{
	"datasets": {"tag", "sluice data tag"},
	"models":   {"alias", "sluice model alias"},
}

// checkPublished reports a constant key that no dataset or model can have.
func (e *Expression) checkPublished(src *document.Source, of, key ast.Expr) {
	if of.Kind() != ast.IdentKind || key.Kind() != ast.LiteralKind {
		return
	}
	words, isPublished := published[of.AsIdent()]
	text, isText := key.AsLiteral().(types.String)
	name, tag, tagged := strings.Cut(string(text), "@")
	if !isPublished || !isText || !tagged || name != "" && artifact.FitsTag(tag) && !artifact.LooksLikeVersion(tag) {
		return
	}
	e.Report(src, e.offset(key.ID()), "name", "write NAME@"+strings.ToUpper(words.tag)+"; `"+words.command+"` gives one to a version",
		fmt.Sprintf("`%s` is not a name with %s", text, spec.Article(words.tag)))
}

// explainPublished names the dataset or model that is not there.
func (e *Expression) explainPublished(err error) error {
	for _, r := range e.Refs {
		words, isPublished := published[r.Path[0].Name]
		if !isPublished || len(r.Path) < 2 || err.Error() != "no such key: "+r.Path[1].Name {
			continue
		}
		key, what := r.Path[1].Name, strings.TrimSuffix(r.Path[0].Name, "s")
		message := fmt.Sprintf("there is no published %s `%s`", what, key)
		if name, tag, tagged := strings.Cut(key, "@"); tagged {
			message = fmt.Sprintf("no published %s `%s` has the %s `%s`", what, name, words.tag, tag)
		}
		return fmt.Errorf("%s: %w", message, &absentError{field: key})
	}
	return err
}
