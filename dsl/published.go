package dsl

import (
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// ReadsPublished reports whether the pipeline may read `datasets[key]` or `models[key]`, as root says.
func (p *Program) ReadsPublished(root, key string) bool {
	for _, s := range p.steps {
		against := document.Lookup(document.Lookup(s.body, "drift"), "against")
		if root == "datasets" && against != nil && (against.Value == key || strings.Contains(against.Value, "${")) {
			return true
		}
	}
	return p.published[[2]string{root, key}] || p.published[[2]string{root, anyKey}]
}

// anyKey stands for keys that are only known during a run.
const anyKey = ""

// usePublished notes a key that an expression reads of `datasets` or `models`, and reports one that nothing published can have: it is NAME,
// or NAME@ with the tag of a version.
func (c *checker) usePublished(e *expr.Expression, r expr.Reference) {
	words, isPublished := map[string]struct{ tag, command string }{
		"datasets": {"tag", "sluice data tag"}, "models": {"alias", "sluice model alias"},
	}[r.Path[0].Name]
	if !isPublished {
		return
	}
	key := anyKey
	if len(r.Path) > 1 {
		key = r.Path[1].Name
	}
	c.published[[2]string{r.Path[0].Name, key}] = true
	name, tag, tagged := strings.Cut(key, "@")
	if tagged && (name == "" || !artifact.FitsTag(tag) || artifact.LooksLikeVersion(tag)) {
		e.ReportReference(c.src, r, "name", "write NAME@"+strings.ToUpper(words.tag)+"; `"+words.command+"` gives one to a version",
			fmt.Sprintf("`%s` is not a name with %s", key, spec.Article(words.tag)))
	}
}
