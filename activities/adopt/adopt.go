// Package adopt takes over what the program sluice made of a step on a node of a pool: an artifact with folders and a report becomes the outputs
// that the step has beside the worker. No file is copied.
package adopt

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Outputs are those of a cleaning or a compilation. Errors of a compilation are those of compile.Judge.
func Outputs(ctx context.Context, s *store.Store, in contract.CollectInput) (any, error) {
	var made map[string]artifact.Ref
	if err := spec.Fill(&made, in.Outputs); err != nil {
		return nil, err
	}
	if ref, cleans := made[spec.CleanMade]; cleans {
		return cleaning(ctx, s, ref)
	}
	return compilation(ctx, s, in, made[spec.CompileBuilt])
}

func cleaning(ctx context.Context, s *store.Store, made artifact.Ref) (out spec.CleanOutput, err error) {
	report, digests, err := readReport[offload.CleanReport](ctx, s, made, offload.CleanFile)
	if err != nil {
		return out, fmt.Errorf("read what the node has cleaned: %w", err)
	}
	out = report.Output
	out.Statistics = digests[offload.Profile]
	if out.Dataset, err = s.PutFolder(ctx, artifact.Dataset, made, offload.Dataset, Meta(out)); err != nil {
		return out, err
	}
	if out.Account, err = s.PutFolder(ctx, artifact.Dataset, made, offload.Account, nil); err != nil {
		return out, err
	}
	if out.Rows.Rejected > 0 {
		out.DeadLetter, err = s.PutFolder(ctx, artifact.Dataset, made, offload.Rejected, nil)
	}
	return out, err
}

// Meta is what the artifact of a cleaned dataset says of it.
func Meta(out spec.CleanOutput) map[string]string {
	meta := map[string]string{"rows": strconv.FormatInt(out.Rows.Kept, 10)}
	for part, n := range out.Splits {
		meta["split."+part] = strconv.FormatInt(n, 10)
	}
	return meta
}

func compilation(ctx context.Context, s *store.Store, in contract.CollectInput, made artifact.Ref) (out spec.CompileOutput, err error) {
	resolved, err := record.LoadSpec[spec.CompileModel](ctx, s, in.StepInput)
	if err != nil {
		return out, err
	}
	report, _, err := readReport[offload.BuildReport](ctx, s, made, offload.BuildFile)
	if err != nil {
		return out, fmt.Errorf("read what the node has built: %w", err)
	}
	return compile.Judge(resolved, report, func(name string, meta map[string]string) (artifact.Ref, error) {
		return s.PutFolder(ctx, artifact.Model, made, name, meta)
	})
}

// readReport reads the report in an artifact. digests are those of all files there.
func readReport[R any](ctx context.Context, s *store.Store, made artifact.Ref, file string) (report R, digests map[string]string, err error) {
	manifest, err := s.Manifest(ctx, made)
	if err != nil {
		return report, nil, err
	}
	digests = make(map[string]string, len(manifest.Files))
	for _, f := range manifest.Files {
		digests[f.Path] = f.Digest
	}
	if digests[file] == "" {
		return report, nil, fmt.Errorf("%s is missing", file)
	}
	blob, err := s.Blob(ctx, digests[file])
	if err != nil {
		return report, nil, err
	}
	defer blob.Close()
	report, err = stepargs.DecodeReport[R](blob, file)
	return report, digests, err
}
