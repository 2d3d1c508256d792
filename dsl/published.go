package dsl

import (
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// checkPublished reports a key that nothing published can have: it is NAME, or NAME@ with the tag of a version.
func (c *checker) checkPublished(e *expr.Expression, r expr.Reference) {
	words, isPublished := map[string]struct{ tag, command string }{
		"datasets": {"tag", "sluice data tag"}, "models": {"alias", "sluice model alias"},
	}[r.Path[0].Name]
	if !isPublished || len(r.Path) < 2 {
		return
	}
	key := r.Path[1].Name
	name, tag, tagged := strings.Cut(key, "@")
	if tagged && (name == "" || !artifact.FitsTag(tag) || artifact.LooksLikeVersion(tag)) {
		e.ReportReference(c.src, r, "name", "write NAME@"+strings.ToUpper(words.tag)+"; `"+words.command+"` gives one to a version",
			fmt.Sprintf("`%s` is not a name with %s", key, spec.Article(words.tag)))
	}
}
