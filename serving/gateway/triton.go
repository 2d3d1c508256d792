package gateway

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/serving/batch"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
)

// backend is what Triton calls ONNX Runtime.
const backend = "onnxruntime"

// batching is an Upstream that joins requests: a model that runs in this process.
type batching interface {
	Batching() (opts batch.Options, joins bool)
}

// triton adds the routes of Triton's extensions for configurations and statistics, and of those that there are not, which say so.
func (g *Gateway) triton(mux *http.ServeMux) {
	model := "/v2/models/" + g.opts.Target
	for _, base := range []string{model, model + "/versions/{version}"} {
		mux.HandleFunc("GET "+base+"/config", g.modelConfig)
		mux.HandleFunc("GET "+base+"/stats", g.modelStatistics)
		mux.HandleFunc(base+"/generate", lacks("generate"))
		mux.HandleFunc(base+"/generate_stream", lacks("generate"))
	}
	if g.opts.Target != "stats" { // whose metadata are there
		mux.HandleFunc("GET /v2/models/stats", g.modelStatistics)
	}
	mux.HandleFunc(model+"/trace/setting", lacks("TraceSetting"))
	mux.HandleFunc("/v2/trace/setting", lacks("TraceSetting"))
	mux.HandleFunc("/v2/logging", lacks("LogSettings"))
	mux.HandleFunc("/v2/systemsharedmemory/", lacks("SystemSharedMemory"))
	mux.HandleFunc("/v2/cudasharedmemory/", lacks("CudaSharedMemory"))
}

const noSharedMemory = "shared memory is not supported; send the tensors in the request"

// lacking is what of Triton's protocol there is not, by the beginning of its calls' names.
var lacking = map[string]string{
	"SystemSharedMemory": noSharedMemory,
	"CudaSharedMemory":   noSharedMemory,
	"TraceSetting":       "there are no trace settings; a request that has the header traceparent is traced by it",
	"LogSettings":        "there are no log settings; they are those of the process that the gateway is in",
	"generate":           "text is not generated here; send the inputs to infer, or give the target a server with `protocol: openai`",
}

// lack is the error of a call that there is not; nil for one that nobody knows.
func lack(call string) error {
	for name, why := range lacking {
		if strings.HasPrefix(call, name) {
			return &oip.Error{Status: http.StatusNotImplemented, Message: why}
		}
	}
	return nil
}

func lacks(call string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { oip.WriteError(w, lack(call)) }
}

func (g *Gateway) modelConfig(w http.ResponseWriter, r *http.Request) {
	config, err := g.config(r.PathValue("version"))
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	oip.WriteJSON(w, http.StatusOK, inference.JSON(config))
}

func (g *Gateway) modelStatistics(w http.ResponseWriter, r *http.Request) {
	stats, err := g.statistics(r.PathValue("version"))
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	oip.WriteJSON(w, http.StatusOK, inference.JSON(stats))
}

// ModelConfig implements inference.GRPCInferenceServiceServer.
func (s service) ModelConfig(ctx context.Context, m *inference.ModelConfigRequest) (*inference.ModelConfigResponse, error) {
	if err := s.named(m.GetName()); err != nil {
		return nil, refused(ctx, err)
	}
	config, err := s.g.config(m.GetVersion())
	if err != nil {
		return nil, refused(ctx, err)
	}
	return &inference.ModelConfigResponse{Config: config}, nil
}

// ModelStatistics implements inference.GRPCInferenceServiceServer.
func (s service) ModelStatistics(ctx context.Context, m *inference.ModelStatisticsRequest) (*inference.ModelStatisticsResponse, error) {
	if m.GetName() != "" {
		if err := s.named(m.GetName()); err != nil {
			return nil, refused(ctx, err)
		}
	}
	stats, err := s.g.statistics(m.GetVersion())
	if err != nil {
		return nil, refused(ctx, err)
	}
	return stats, nil
}

// config describes the version asked for, else the release with the most traffic, as far as the gateway decides: of a model on a server
// elsewhere, what that does is not known.
func (g *Gateway) config(version string) (*inference.ModelConfig, error) {
	a, err := g.hold(version)
	if err != nil {
		return nil, err
	}
	defer a.inflight.Done()
	c := &inference.ModelConfig{
		Name: g.opts.Target, VersionPolicy: versionPolicy(g.readyReleases()), ModelTransactionPolicy: &inference.ModelTransactionPolicy{},
	}
	rows := 0 // dimensions that are those of the batch, which Triton leaves out
	if model, ok := a.upstream.(batching); ok {
		opts, joins := model.Batching()
		c.Platform, c.Backend = platform, backend
		// Where it runs, the target's `provider` says, which Triton would call the model's own affair.
		group := &inference.ModelInstanceGroup{Name: g.opts.Target, Kind: inference.ModelInstanceGroup_KIND_MODEL, Count: int32(opts.Instances)}
		c.InstanceGroup = []*inference.ModelInstanceGroup{group}
		if joins {
			rows, c.MaxBatchSize, c.DynamicBatching = 1, int32(opts.MaxBatch), g.dynamicBatching(opts)
		}
	}
	for _, t := range a.upstream.Inputs() {
		c.Input = append(c.Input, &inference.ModelInput{Name: t.Name, DataType: dataType(t.Datatype), Dims: t.Shape[rows:]})
	}
	for _, t := range a.upstream.Outputs() {
		c.Output = append(c.Output, &inference.ModelOutput{Name: t.Name, DataType: dataType(t.Datatype), Dims: t.Shape[rows:]})
	}
	return c, nil
}

func (g *Gateway) dynamicBatching(opts batch.Options) *inference.ModelDynamicBatching {
	d := &inference.ModelDynamicBatching{
		MaxQueueDelayMicroseconds: uint64(opts.MaxDelay.Microseconds()),
		DefaultQueuePolicy: &inference.ModelQueuePolicy{
			DefaultTimeoutMicroseconds: uint64(g.opts.Timeout.Microseconds()), MaxQueueSize: uint32(opts.MaxQueue),
		},
	}
	for _, size := range opts.Preferred {
		d.PreferredBatchSize = append(d.PreferredBatchSize, int32(size))
	}
	return d
}

func versionPolicy(ready []*release) *inference.ModelVersionPolicy {
	specific := &inference.ModelVersionPolicy_Specific{}
	for _, r := range ready {
		if n, err := strconv.ParseInt(r.Version, 10, 64); err == nil {
			specific.Versions = append(specific.Versions, n)
		}
	}
	return &inference.ModelVersionPolicy{PolicyChoice: &inference.ModelVersionPolicy_Specific_{Specific: specific}}
}

// dataType is what a ModelConfig calls a datatype; TYPE_INVALID for none of the protocol's.
func dataType(d oip.Datatype) inference.DataType {
	if d == oip.Bytes {
		return inference.DataType_TYPE_STRING
	}
	return inference.DataType(inference.DataType_value["TYPE_"+string(d)])
}

// readyReleases are those of the document that are loaded, in its order.
func (g *Gateway) readyReleases() []*release {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var ready []*release
	for _, wanted := range g.doc.Releases {
		if r := g.releases[wanted.Version]; r != nil && r.state == Ready {
			ready = append(ready, r)
		}
	}
	return ready
}

// statistics are those of one version, or of all that are loaded, since they were.
func (g *Gateway) statistics(version string) (*inference.ModelStatisticsResponse, error) {
	all := &inference.ModelStatisticsResponse{}
	for _, r := range g.readyReleases() {
		if version == "" || version == r.Version {
			all.ModelStats = append(all.ModelStats, statisticsOf(g.opts.Target, r.Version, r.stats()))
		}
	}
	if version != "" && len(all.ModelStats) == 0 {
		return nil, g.noVersion(version)
	}
	return all, nil
}

// statisticsOf says in Triton's words what a model has run. The time of an inference counts for each request in it.
func statisticsOf(target, version string, s batch.Stats) *inference.ModelStatistics {
	stat := func(n int64, ns int64) *inference.StatisticDuration {
		return &inference.StatisticDuration{Count: uint64(n), Ns: uint64(ns)}
	}
	m := &inference.ModelStatistics{
		Name: target, Version: version, InferenceCount: uint64(s.Rows), ExecutionCount: uint64(s.Inferences),
		InferenceStats: &inference.InferStatistics{
			Success: stat(s.Succeeded, int64(s.Requests-s.FailedAfter)), Fail: stat(s.Failed, int64(s.FailedAfter)),
			Queue: stat(s.Succeeded, int64(s.Answered.Queued)), ComputeInput: stat(s.Succeeded, int64(s.Answered.Joined)),
			ComputeInfer: stat(s.Succeeded, int64(s.Answered.Ran)), ComputeOutput: stat(s.Succeeded, int64(s.Answered.Split)),
			CacheHit: stat(0, 0), CacheMiss: stat(0, 0), // there is no cache
		},
	}
	if !s.Last.IsZero() {
		m.LastInference = uint64(s.Last.UnixMilli())
	}
	for _, rows := range slices.Sorted(maps.Keys(s.Sizes)) {
		size := s.Sizes[rows]
		m.BatchStats = append(m.BatchStats, &inference.InferBatchStatistics{
			BatchSize: uint64(rows), ComputeInput: stat(size.Inferences, int64(size.Joined)),
			ComputeInfer: stat(size.Inferences, int64(size.Ran)), ComputeOutput: stat(size.Inferences, int64(size.Split)),
		})
	}
	return m
}
