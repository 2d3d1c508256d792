package dsl

import (
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/pipfile"
)

// otherFormats are files that other tools keep requirements in, each with how to make one that pip reads.
var otherFormats = map[string]string{
	"pyproject.toml":   "write one with `uv pip compile pyproject.toml -o requirements.txt`, or `uv export --no-hashes --no-emit-project -o requirements.txt`",
	"uv.lock":          "write one with `uv export --no-hashes --no-emit-project -o requirements.txt`",
	"poetry.lock":      "write one with `poetry export -o requirements.txt`",
	"Pipfile":          "write one with `pipenv requirements > requirements.txt`",
	"Pipfile.lock":     "write one with `pipenv requirements > requirements.txt`",
	"environment.yml":  "write one with `pip list --format=freeze > requirements.txt`",
	"environment.yaml": "write one with `pip list --format=freeze > requirements.txt`",
	"setup.py":         "list the packages in a requirements.txt",
	"setup.cfg":        "list the packages in a requirements.txt",
}

// readRequirements notes which files a requirements file includes, which a result depends on as it does on that, and reports those that
// a run would lack; at is what names the requirements file.
func (c *checker) readRequirements(at *yaml.Node, file string) {
	root := path.Clean(file)
	if _, known := c.requirements[root]; known || !document.IsInside(root) {
		return
	}
	c.requirements[root] = nil
	if how, isOther := otherFormats[path.Base(root)]; isOther {
		c.src.Errorf(at, "runtime", how, "pip cannot read `%s` as a requirements file", file)
		return
	}
	seen := []string{root}
	for i := 0; i < len(seen); i++ {
		data, err := c.ws.ReadFile(seen[i])
		if err != nil {
			continue // whoever installs it says why
		}
		if line := pipfile.Local(data); line != "" {
			c.src.Errorf(at, "runtime", "import it from the workspace, where the command runs, or use a published package", "%q has the line `%s`, which would install from a folder or a file", seen[i], line)
		}
		for _, name := range pipfile.Included(seen[i], data) {
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			switch why, help := c.ws.LeftOut(name); {
			case !document.IsInside(name):
				c.src.Errorf(at, "path", "copy it into the pipeline's folder", "%q includes %q, which is outside the pipeline's folder", file, name)
			case !c.ws.Exists(name):
				c.src.Errorf(at, "missing-file", "pip looks for it beside the file that includes it", "%q includes %q, which does not exist", file, name)
			case why != "":
				c.src.Errorf(at, "left-out", help, "%q includes %q, which is not part of the run's workspace: %s", file, name, why)
			}
		}
	}
	c.requirements[root] = seen[1:]
}

// WithIncluded adds to workspace files those that the requirements files among them include.
func (p *Program) WithIncluded(files []string) []string {
	all := slices.Clone(files)
	for _, file := range files {
		all = append(all, p.requirements[path.Clean(file)]...)
	}
	return all
}
