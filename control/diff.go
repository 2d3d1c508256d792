package control

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// diffSubmissions says in words what a submission was made of otherwise than an earlier one: files, parameters, the environment. Empty: nothing.
func diffSubmissions(ctx context.Context, s *store.Store, earlier, now string) ([]string, error) {
	was, before, err := submitted(ctx, s, earlier)
	if err != nil {
		return nil, err
	}
	is, files, err := submitted(ctx, s, now)
	return differences(was, is, before, files), err
}

// submitted reads a submission and the files of its workspace.
func submitted(ctx context.Context, s *store.Store, digest string) (record.Submission, []artifact.File, error) {
	sub, err := record.LoadSubmission(ctx, s, digest)
	if err != nil {
		return sub, nil, err
	}
	m, err := s.Manifest(ctx, sub.Workspace)
	return sub, m.Files, err
}

// differences says in words how a submission and its files differ from an earlier one.
func differences(was, is record.Submission, before, now []artifact.File) []string {
	words := otherFiles(before, now)
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
	return append(words, otherParams(was, is)...)
}

// otherFiles says which files of the workspace differ.
func otherFiles(before, now []artifact.File) []string {
	changed, removed := artifact.Changes(before, now)
	var words []string
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		if changed[path] == (artifact.File{}) {
			words = append(words, "`"+path+"` is new")
		} else {
			words = append(words, "`"+path+"` has changed")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(removed)) {
		words = append(words, "`"+path+"` has been removed")
	}
	return words
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
