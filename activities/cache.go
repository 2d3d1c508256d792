package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/artifact"
)

// toolsVersion is part of every cache key. It is raised when a new version of Sluice makes something else of the same spec.
const toolsVersion = "2"

// parts are the digests of everything that a step's result depends on, by what a person would call it: the keys of its spec, its
// inputs, its environment, the workspace files it uses.
func (e *Engine) parts(ctx context.Context, sub *submitted, node dsl.Node, resolved dsl.Resolved) (map[string]string, error) {
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(resolved.Spec, &spec); err != nil {
		return nil, contract.Error(contract.ErrInvalid, "the resolved spec of "+node.ID+" cannot be read", err)
	}
	parts := map[string]string{"kind": short([]byte(node.Kind)), "tools": short([]byte(toolsVersion))}
	for key, value := range spec {
		if node.Kind == dsl.KindClean && key == "drift" {
			continue // a dataset is compared when it is judged
		}
		var inputs map[string]json.RawMessage
		if key != "inputs" || json.Unmarshal(value, &inputs) != nil {
			parts[key] = short(value)
			continue
		}
		for name, ref := range inputs {
			parts["inputs."+name] = short(ref)
		}
	}
	for name, value := range resolved.Env {
		parts["env."+name] = short([]byte(value))
	}
	for name, secret := range resolved.Secrets {
		parts["secrets."+name] = short([]byte(secret))
	}
	if resolved.Cache.Version != "" {
		parts["cache.version"] = short([]byte(resolved.Cache.Version))
	}
	if usesFiles(node.Kind) || resolved.Programs {
		files, err := e.filesDigest(ctx, sub, resolved.Files)
		if err != nil {
			return nil, err
		}
		parts["files"] = files
	}
	return parts, nil
}

// usesFiles reports whether all steps of a kind see the workspace.
func usesFiles(kind dsl.Kind) bool {
	switch kind {
	case dsl.KindRun, dsl.KindTrain, dsl.KindEvaluate, dsl.KindPipeline:
		return true
	case dsl.KindClean, dsl.KindCompile, dsl.KindRollout, dsl.KindApproval:
	}
	return false
}

// filesDigest is that of the workspace files a step depends on: those it names, or all but the documents themselves, whose changes
// are in the specs.
func (e *Engine) filesDigest(ctx context.Context, sub *submitted, names []string) (string, error) {
	if sub.files != nil {
		return digestOfFiles(sub, sub.files, names), nil
	}
	if sub.Workspace.IsZero() {
		return "", nil
	}
	key := strings.Join(slices.Concat([]string{sub.Workspace.Digest, sub.File, sub.EnvFile}, sub.Parents, names), " ")
	return e.files.get(&e.mu, key, func() (string, error) {
		manifest, err := e.Store.Manifest(ctx, sub.Workspace)
		if err != nil {
			return "", fmt.Errorf("the workspace: %w", err)
		}
		return digestOfFiles(sub, manifest.Files, names), nil
	})
}

func digestOfFiles(sub *submitted, files []artifact.File, names []string) string {
	sum := sha256.New()
	for _, f := range files {
		if sub.isDocument(f.Path) || !isAmong(f.Path, names) {
			continue
		}
		fmt.Fprintln(sum, f.Path, f.Digest, f.Exec) //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// isDocument reports whether a workspace file is one of the documents that were submitted.
func (s *submitted) isDocument(file string) bool {
	return file == s.File || file == s.EnvFile || slices.Contains(s.Parents, file)
}

// isAmong reports whether a file is one of names, or lies in a folder that is; no names mean all files.
func isAmong(file string, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		name = path.Clean(name)
		return file == name || strings.HasPrefix(file, name+"/")
	})
}

// short is enough of a digest to tell one value from another.
func short(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// keyOf is the cache key that parts make.
func keyOf(parts map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		fmt.Fprintln(sum, name, parts[name]) //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// explain keeps the parts of a key for the step's record.
func (e *Engine) explain(key string, parts map[string]string) { e.keys.put(&e.mu, key, parts) }

// hit is an earlier result of what a step is about to do.
type hit struct {
	run    string
	record contract.StepRecord
}

// cached is what the step cache has of a result: where its record is.
type cached struct {
	At contract.At `json:"at"`
}

func cacheKey(key string) string { return "cache/" + key[:2] + "/" + key + ".json" }

// lookup finds a result to take over: in the run that is done again, whatever `cache` says of the step, else in the step cache. A
// result is none when an artifact that it hands on is gone. What follows the main steps is done in every run: nobody is told, and nothing
// is cleared away, by a step that is taken over.
func (e *Engine) lookup(
	ctx context.Context, program *dsl.Program, node dsl.Node, in contract.ResolveInput, cache dsl.Cache, key string,
) (*hit, error) {
	if node.Section != dsl.SectionMain || slices.Contains(in.Reuse.Again, in.Step) {
		return nil, nil
	}
	take := func(at contract.At) (*hit, error) { return e.take(ctx, program, node, at, key) }
	if in.Reuse.From != "" {
		at := in.At
		at.Run = in.Reuse.From
		if h, err := take(at); h != nil || err != nil {
			return h, err
		}
	}
	if in.Reuse.NoCache || !cache.Enabled {
		return nil, nil
	}
	var entry cached
	if err := e.Store.GetJSON(ctx, cacheKey(key), &entry); err != nil || entry.At.Run == "" {
		return nil, nil //nolint:nilerr // an entry that is absent or broken is a miss
	}
	if age := time.Duration(cache.MaxAge); age > 0 && in.Now.Sub(entry.At.Now) > age {
		return nil, nil
	}
	return take(entry.At)
}

// take returns the result at a place as that of node, when it succeeded, was made from the same and is still whole.
func (e *Engine) take(ctx context.Context, program *dsl.Program, node dsl.Node, at contract.At, key string) (*hit, error) {
	var record contract.StepRecord
	switch err := e.Store.GetJSON(ctx, recordKey(at), &record); {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, err
	case record.Status != dsl.StatusSucceeded || record.Key != key:
		return nil, nil
	}
	if whole, err := e.isWhole(ctx, program.Artifacts(node.ID, record.Outputs)); !whole || err != nil {
		return nil, err
	}
	return &hit{run: cmp.Or(record.ReusedFrom, at.Run), record: record}, nil
}

// handOn makes a record's outputs small enough for history.
func (e *Engine) handOn(ctx context.Context, record contract.StepRecord) (contract.StepOutput, error) {
	if record.OutputsRef != "" || record.Outputs == nil {
		return contract.StepOutput{OutputsRef: record.OutputsRef}, nil
	}
	return StoreOutputs(ctx, e.Store, record.Outputs)
}

// isWhole reports whether artifacts are in the store with all their files.
func (e *Engine) isWhole(ctx context.Context, refs []artifact.Ref) (bool, error) {
	for _, ref := range refs {
		manifest, err := e.Store.Manifest(ctx, ref)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		digests := make([]string, len(manifest.Files))
		for i, f := range manifest.Files {
			digests[i] = f.Digest
		}
		if all, err := e.Store.HasBlobs(ctx, digests); !all {
			return false, err
		}
	}
	return true, nil
}

// differing names the parts in which two keys differ.
func differing(a, b map[string]string) []string {
	var names []string
	for name := range a {
		if b[name] != a[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
