package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/pipelines"
)

// stepVersion is part of the keys of all steps but cleanings, which have pipelines.Version. Raise it when a new version of Sluice makes something
// else of the same step.
const stepVersion = "7"

// parts returns the digests of everything that a step's result may depend on, by names for people: the keys of its spec, its inputs,
// parameters and environment, its runtime, and the workspace files that it uses. The keys of all kinds are made from them; a change of
// anything else does not run a step again.
func (e *Engine) parts(ctx context.Context, sub *Submitted, node spec.Node, resolved dsl.Resolved) (map[string]string, error) {
	sp, err := spec.Decode[map[string]json.RawMessage](resolved.Spec)
	if err != nil {
		return nil, err
	}
	of := kindOf(node)
	tools := stepVersion
	if of.cleans {
		tools = pipelines.Version
	}
	parts := map[string]string{"kind": ShortDigest([]byte(node.Kind)), "tools": ShortDigest([]byte(tools))}
	for key, value := range sp {
		if of.cleans && (key == "drift" || key == "row_params") {
			continue // a dataset is compared when it is evaluated, and the parameters are added below
		}
		var inputs map[string]json.RawMessage
		if key != "inputs" || json.Unmarshal(value, &inputs) != nil {
			parts[key] = ShortDigest(value)
			continue
		}
		for name, ref := range inputs {
			parts["inputs."+name] = ShortDigest(ref)
		}
	}
	add := func(what string, values map[string]string) {
		for name, value := range values {
			parts[what+"."+name] = ShortDigest([]byte(value))
		}
	}
	add("params", resolved.Params)
	add("env", resolved.Env)
	add("secrets", resolved.Secrets)
	hashed, err := e.hashKeyParts(ctx, sub.Program, node, resolved)
	if err != nil {
		return nil, err
	}
	maps.Copy(parts, hashed)
	if resolved.Cache.Version != "" {
		parts["cache.version"] = ShortDigest([]byte(resolved.Cache.Version))
	}
	var pools runtimes
	if of.pools != nil {
		if pools, err = of.pools(sub.Program.Environment(), resolved.Spec); err != nil {
			return nil, err
		}
	}
	if of.poolFiles && resolved.Files != nil {
		resolved.Files = append(slices.Clip(resolved.Files), sub.Program.WithIncluded(pools.requirements())...)
	}
	pools.addTo(parts)
	if of.runsHere != nil && of.runsHere(pools, resolved.Programs) {
		if err := e.addPython(ctx, sub, parts); err != nil {
			return nil, err
		}
		if err := e.addPlatform(ctx, of, resolved.Spec, parts); err != nil {
			return nil, err
		}
	}
	if of.files || resolved.Programs {
		if parts["files"], err = e.FilesDigest(ctx, sub, resolved.Files); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// runtimes are those that programs may run in which do not choose for themselves, by pool.
type runtimes map[string]spec.Pool

// addTo adds what the pools' runtimes are.
func (r runtimes) addTo(parts map[string]string) {
	for name, pool := range r {
		if pool.Runtime != (spec.Runtime{}) {
			parts["pools."+name+".runtime"] = ShortDigest(fmt.Appendf(nil, "%q %q", pool.Runtime.Image, pool.Runtime.Python))
		}
	}
}

// requirements are the pools' requirements files, which lie in the workspace.
func (r runtimes) requirements() []string {
	var files []string
	for _, pool := range r {
		if pool.Runtime.Python != "" {
			files = append(files, pool.Runtime.Python)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// addPython adds the Python that the submission finds on this machine, and what is installed for it.
func (e *Engine) addPython(ctx context.Context, sub *Submitted, parts map[string]string) error {
	if e.Python == nil {
		return nil
	}
	digest, err := e.Python(ctx, sub.Python)
	parts[partPython] = digest
	return err
}

// HasPython reports whether the Python of a submission is still the one in a key, if any is.
func (e *Engine) HasPython(ctx context.Context, submission, keyed string) (bool, error) {
	if keyed == "" {
		return true, nil
	}
	sub, err := e.Submission(ctx, submission)
	if err != nil {
		return false, err
	}
	now := map[string]string{}
	err = e.addPython(ctx, sub, now)
	return now[partPython] == keyed, err
}

// The parts that say what a step is done with.
const (
	partPython            = "python"
	partGPU               = "gpu"
	partComputeCapability = "compute_capability"
	partDriver            = "driver"
	partTensorRT          = "tensorrt"
)

// addPlatform adds what a TensorRT engine is bound to, where the step may build one: on another GPU or version it is to be built again. One of
// TensorRT for RTX is built of the Python packages and measured on the GPU. Where the GPU does not say what it is, nothing is taken over, and the
// step itself says why.
func (e *Engine) addPlatform(ctx context.Context, of kind, resolved json.RawMessage, parts map[string]string) error {
	if e.Platform == nil || of.engines == nil {
		return nil
	}
	flavors, err := of.engines(resolved)
	if err != nil || len(flavors) == 0 {
		return err
	}
	platform, err := e.Platform(ctx)
	_, none := errors.AsType[*trtexec.UnavailableError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !none:
		parts[partGPU] = rand.Text()
		return nil
	}
	if slices.Contains(flavors, spec.FlavorTrtexec) {
		parts[partTensorRT] = cmp.Or(platform.TensorRT, "none")
	}
	if platform.GPU != "" && (!none || slices.Contains(flavors, spec.FlavorRTX)) {
		parts[partGPU], parts[partComputeCapability], parts[partDriver] = platform.GPU, platform.ComputeCapability, platform.Driver
	}
	return nil
}

// ProgramsDigest is a digest of everything that the answers of a clean step's programs depend on besides their commands and the rows: the
// workspace files that they use, the Python of this machine with its packages, and their other settings.
func (e *Engine) ProgramsDigest(ctx context.Context, sub *Submitted, files []string, given ...any) (string, error) {
	digest, err := e.FilesDigest(ctx, sub, files)
	if err != nil {
		return "", err
	}
	parts := map[string]string{}
	if err := e.addPython(ctx, sub, parts); err != nil {
		return "", err
	}
	text, err := json.Marshal([]any{digest, parts, given})
	return ShortDigest(text), err
}

// FilesDigest is the digest of the workspace files that a step depends on: those that it names, or all except the pipeline and its
// environments, whose changes are in the specs.
func (e *Engine) FilesDigest(ctx context.Context, sub *Submitted, names []string) (string, error) {
	if sub.files != nil {
		return digestOfFiles(sub, sub.files, names), nil
	}
	if sub.Workspace.IsZero() {
		return "", nil
	}
	key := fmt.Sprintf("%s %q %t %q", sub.Workspace.Digest, sub.documents(), names == nil, names)
	return e.files.get(key, func() (string, error) {
		manifest, err := e.Store.Manifest(ctx, sub.Workspace)
		if err != nil {
			return "", fmt.Errorf("the workspace: %w", err)
		}
		return digestOfFiles(sub, manifest.Files, names), nil
	})
}

func digestOfFiles(sub *Submitted, files []artifact.File, names []string) string {
	sum := sha256.New()
	for _, f := range files {
		if sub.isUsed(f.Path, names) {
			fmt.Fprintln(sum, f.Path, f.Digest, f.Exec) //nolint:errcheck // a hash takes everything
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// documents are the workspace files that were submitted as a pipeline or an environment.
func (s *Submitted) documents() []string {
	all := slices.Clone(s.Parents)
	if !s.Inline {
		all = append(all, s.File)
	}
	if s.EnvFile != "" && !slices.Contains(all, s.EnvFile) {
		all = append(all, s.EnvFile)
	}
	return all
}

// isUsed reports whether a step that names some files depends on a file: on one of them, or one in a folder that is among them, and on
// any where names is nil. On a document it depends when it names that itself.
func (s *Submitted) isUsed(file string, names []string) bool {
	within := names == nil
	for _, name := range names {
		name = path.Clean(name)
		if file == name {
			return true
		}
		within = within || name == "." || strings.HasPrefix(file, name+"/")
	}
	return within && !slices.Contains(s.documents(), file)
}

// ShortDigest is a prefix of a digest, long enough to tell values apart.
func ShortDigest(b []byte) string {
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

// differing names the parts in which two keys differ.
func differing(a, b map[string]string) (names []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was, known := a[name]; !known || was != b[name] {
			names = append(names, name)
		}
	}
	return names
}
