package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/shard"
)

// execute runs a job in this process. beam.Init must have been called. The job's output folders are written only if it succeeds; the caller
// removes the work folder.
func execute(ctx context.Context, job Job, report func(*session)) (spec.CleanOutput, error) {
	s := openSession(job)
	defer sessions.Delete(job.WorkDir)
	s.programs = newPrograms(ctx, job.Programs)
	defer s.programs.close() //nolint:errcheck // what is wrong with one that succeeds is told below
	var err error
	if s.listed, err = job.Listed.Read(); err != nil {
		return spec.CleanOutput{}, err
	}
	p, err := compilePlan(job)
	if err != nil {
		return spec.CleanOutput{}, err
	}
	if err := p.refuse(job); err != nil {
		return spec.CleanOutput{}, err
	}
	sources, files, err := p.findSources(ctx, s.Settle)
	if err != nil {
		return spec.CleanOutput{}, err
	}
	if err := p.addCacheKeys(job, sources); err != nil {
		return spec.CleanOutput{}, err
	}
	if err := s.listed.Complete(); err != nil {
		return spec.CleanOutput{}, err
	}
	if job.Runner.elsewhere() {
		withoutStamps(sources)
	}
	defer job.Cache.prune() //nolint:errcheck // a cache that is too large is no reason to fail
	if err := makeFolders(job.WorkDir, p); err != nil {
		return spec.CleanOutput{}, err
	}
	s.sources, s.inputBytes = sizeOf(sources)
	s.allUnits = p.units(sources)
	s.writing.Shards, s.converting.Shards = p.shards()
	report(s)
	graph, err := build(job, p, sources)
	if err != nil {
		return spec.CleanOutput{}, err
	}
	err = runGraph(ctx, job, graph)
	if ctx.Err() != nil {
		return spec.CleanOutput{}, stopped(ctx)
	}
	if changed := format.Unchanged(files); changed != nil { // it may also be why the graph failed
		return spec.CleanOutput{}, changed
	}
	if err != nil {
		return spec.CleanOutput{}, diskHint(s.cause(err))
	}
	if err := s.programs.close(); err != nil {
		return spec.CleanOutput{}, err
	}
	counts, err := account.Sum(job.WorkDir)
	if err != nil {
		return spec.CleanOutput{}, err
	}
	out, err := outputOf(counts, p)
	if err != nil {
		return out, err
	}
	if err := account.WriteFiles(job.WorkDir, filepath.Join(job.WorkDir, account.FileName), out.Rows, p.cuts()); err != nil {
		return out, err
	}
	if out.Profile, err = summary(job.WorkDir); err != nil {
		return out, err
	}
	if out.Profiles, err = p.profilesOf(job.WorkDir); err != nil {
		return out, err
	}
	if err := offload.RefuseSecrets(out, secret.NewMask(slices.Collect(maps.Values(job.Secrets))...)); err != nil {
		return out, err
	}
	if err := convertShards(ctx, job, p, &s.converting); err != nil {
		if ctx.Err() != nil {
			err = stopped(ctx)
		}
		return out, diskHint(err)
	}
	return out, diskHint(publish(job, out))
}

// maxBeamError bounds how much of one of Beam's own errors is shown; they come with stack traces.
const maxBeamError = 2 << 10

// stopped returns the error of a job whose context has ended: the cause if it is a fault.Error, and otherwise one of type canceled.
func stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if e := (*fault.Error)(nil); errors.As(cause, &e) {
		return e
	}
	return fault.Errorf(fault.Canceled, "cleaning was stopped: %w", cause)
}

// makeFolders creates the folders that the DoFns write to, an empty profile, and an empty file for each shard, since no DoFn writes those
// without rows.
func makeFolders(work string, p *plan) error {
	for _, dir := range []string{"spill", "marks", "places", "dead", "account", account.Folder, profilesFolder, typesFolder, "out"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o777); err != nil {
			return err
		}
	}
	if err := writeProfile(work, columns.NewProfile()); err != nil {
		return err
	}
	for s := range p.sinks() {
		for _, part := range s.parts() {
			if err := os.MkdirAll(filepath.Join(work, "out", part), 0o777); err != nil {
				return err
			}
		}
		for path := range s.paths() {
			if err := os.WriteFile(filepath.Join(work, "out", shard.LinesPath(path)), nil, 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}

// build builds the Beam graph. Beam panics on an invalid graph; build returns an error instead.
func build(job Job, p *plan, sources map[int][]numberedSource) (graph *beam.Pipeline, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("build the Beam graph: %v", r)
		}
	}()
	job.Secrets, job.Programs = nil, Programs{} // the DoFns find them in the session
	spread := !job.Runner.inProcess()
	if spread {
		job.Parallelism = 1 // per bundle; the runner processes several bundles at a time
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	elements := map[int][][]byte{}
	for at, list := range sources {
		for _, source := range list {
			element, err := json.Marshal(source)
			if err != nil {
				return nil, err
			}
			elements[at] = append(elements[at], element)
		}
	}
	graph, scope := beam.NewPipelineWithRoot()
	p.build(scope, text, job.WorkDir, elements, spread)
	return graph, nil
}

// outputOf converts the counts to the step's output and checks that they add up.
func outputOf(counts account.Ledger, p *plan) (spec.CleanOutput, error) {
	out := spec.CleanOutput{
		Rules: map[string]spec.Rule{}, Reasons: map[string]int64{}, Splits: map[string]int64{}, Masked: map[string]int64{},
		Schema: spec.SchemaChange{Added: []string{}, Removed: []string{}, Retyped: []string{}},
	}
	for _, name := range p.rules {
		out.Rules[name] = spec.Rule{}
	}
	for s := range p.sinks() {
		for _, part := range s.parts() {
			out.Splits[part] = 0
		}
	}
	for _, kind := range p.masks {
		out.Masked[kind] = 0
	}
	checks := map[string]map[string]int64{account.CountAsserted: {}, account.CountTried: {}, account.CountFailed: {}}
	for at, n := range counts {
		space, name := at[0], at[1]
		switch space {
		case account.CountRead:
			out.Rows.Read += n
		case account.CountKept:
			out.Rows.Kept += n
			out.Splits[name] += n
		case account.CountDropped:
			out.Rows.Dropped += n
			out.Rules[name] = spec.Rule{Dropped: out.Rules[name].Dropped + n}
		case account.CountGroups:
			out.Duplicates.Groups += n
		case account.CountRejected:
			out.Rows.Rejected += n
			out.Reasons[name] += n
		case account.CountMasked:
			out.Masked[name] += n
		case account.CountExploded:
			out.Rows.Exploded += n
		case account.CountReused:
			out.Rows.Reused += n
		case account.CountCopied:
			out.Rows.Copied += n
		case account.CountAsserted, account.CountTried, account.CountFailed:
			checks[space][name] += n
		}
	}
	for _, name := range p.deduplicates {
		out.Duplicates.Dropped += out.Rules[name].Dropped
	}
	if r := out.Rows; r.Read != r.Kept+r.Dropped+r.Rejected {
		return out, fault.Errorf(fault.Infrastructure, "the counts do not add up: %d rows read, but %d kept + %d dropped + %d rejected = %d;"+
			" this is a bug in Sluice, and the dataset was not written", r.Read, r.Kept, r.Dropped, r.Rejected,
			r.Kept+r.Dropped+r.Rejected)
	}
	return out, p.checkThresholds(checks)
}

// checkThresholds returns an error for the first transform whose counts fail the job.
func (p *plan) checkThresholds(counts map[string]map[string]int64) error {
	for _, a := range p.asserted {
		if err := a.Check(counts[account.CountAsserted]); err != nil {
			return err
		}
	}
	for _, n := range p.nodes {
		if n.threshold == nil {
			continue
		}
		if err := n.threshold.Check(n.name, counts[account.CountTried][n.name], counts[account.CountFailed][n.name]); err != nil {
			return err
		}
	}
	return nil
}

// diskHint adds to the error of a full disk how much space cleaning needs.
func diskHint(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Errorf(fault.Infrastructure, "%w; while it runs, cleaning needs disk space of about three times the size of its input", err)
	}
	return err
}
