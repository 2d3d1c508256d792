package control

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
)

// diffSubmissions says in words what a submission was made of otherwise than an earlier one: files, parameters, the environment. Empty: nothing.
func (s *Session) diffSubmissions(ctx context.Context, earlier, now string) ([]string, error) {
	was, err := record.LoadSubmission(ctx, s.Store, earlier)
	if err != nil {
		return nil, err
	}
	is, err := record.LoadSubmission(ctx, s.Store, now)
	if err != nil {
		return nil, err
	}
	words, err := s.otherFiles(ctx, was.Workspace, is.Workspace)
	if len(words) == 0 && !bytes.Equal(was.Pipeline, is.Pipeline) { // else its file has been named
		words = append(words, "the pipeline has changed")
	}
	if named := slices.ContainsFunc(words, func(w string) bool { return w == "`"+is.EnvFile+"` has changed" }); !named &&
		!bytes.Equal(was.Environment, is.Environment) {
		words = append(words, "the environment has changed")
	}
	if was.Python != is.Python {
		words = append(words, "the Python environment has changed")
	}
	return append(words, otherParams(was, is)...), err
}

// otherFiles says which files of the workspace differ.
func (s *Session) otherFiles(ctx context.Context, was, is artifact.Ref) ([]string, error) {
	if was.Digest == is.Digest {
		return nil, nil
	}
	files := [2]map[string]artifact.File{{}, {}}
	for i, ref := range []artifact.Ref{was, is} {
		m, err := s.Store.Manifest(ctx, ref)
		if err != nil {
			return nil, err
		}
		for _, f := range m.Files {
			files[i][f.Path] = f
		}
	}
	var words []string
	for _, path := range slices.Sorted(maps.Keys(files[1])) {
		switch before, there := files[0][path]; {
		case !there:
			words = append(words, "`"+path+"` is new")
		case before != files[1][path]:
			words = append(words, "`"+path+"` has changed")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files[0])) {
		if _, there := files[1][path]; !there {
			words = append(words, "`"+path+"` has been removed")
		}
	}
	return words, nil
}

// otherParams says which parameters were given otherwise.
func otherParams(was, is record.Submission) []string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(merged(was.Params, is.Params))) {
		before, gave := was.Params[name]
		now, gives := is.Params[name]
		if before != now || gave != gives {
			words = append(words, fmt.Sprintf("the parameter `%s` has changed", name))
		}
	}
	return words
}
