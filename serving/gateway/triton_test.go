package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceml/sluice/serving/batch"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
	"github.com/sluiceml/sluice/serving/routing"
)

// floats is a model that a Batcher joins requests of. 13 fails.
type floats struct{ scripted }

func (*floats) Check(inputs []oip.Tensor) ([]oip.Tensor, error) {
	if inputs[0].Datatype() != oip.FP32 {
		return nil, oip.Invalid("not that")
	}
	return inputs, nil
}

func (*floats) Run(_ context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	if slices.Contains(inputs[0].Data.([]float32), 13) {
		return nil, errors.New("out of luck")
	}
	return []oip.Tensor{{Name: "y", Shape: inputs[0].Shape, Data: inputs[0].Data}}, nil
}

// newBatched serves release 1 with a Batcher, and release 2 with what says nothing of itself.
func newBatched(t *testing.T) *bench {
	t.Helper()
	ready := make(chan struct{})
	var b *bench
	b = openerBench(t, func(ctx context.Context, r routing.Release, _ func(string)) (Upstream, error) {
		<-ready
		if r.Version == "2" {
			return b.echo(), nil
		}
		model := batch.New(&floats{scripted{onClose: func() {}}}, batch.Options{
			Instances: 2, MaxBatch: 8, MaxDelay: 2 * time.Millisecond, Preferred: []int{4, 8}, Trusted: true, Logger: slog.New(slog.DiscardHandler),
		})
		return model, model.WarmUp(ctx)
	}, nil)
	close(ready)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1}, weightedBehaviour{"2", "", 0})
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready })
	return b
}

const modelPath = "/v2/models/m"

// TestModelConfig: the same over REST and gRPC.
func TestModelConfig(t *testing.T) {
	b := newBatched(t)
	_, client := dial(t, b)
	const tensors = `"version_policy": {"specific": {"versions": [1, 2]}}, "model_transaction_policy": {"decoupled": false}`
	joined := `{"name": "m", "platform": "onnxruntime_onnx", "backend": "onnxruntime", "max_batch_size": 8, ` + tensors + `,
		"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [1]}], "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}],
		"dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 2000, "preserve_ordering": false, "default_queue_policy":
			{"timeout_action": "REJECT", "default_timeout_microseconds": 30000000, "allow_timeout_override": false, "max_queue_size": 256}},
		"instance_group": [{"name": "m", "kind": "KIND_MODEL", "count": 2}]}`
	other := `{"name": "m", "platform": "", "backend": "", "max_batch_size": 0, ` + tensors + `, "instance_group": [],
		"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 1]}], "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 1]}]}`
	for version, want := range map[string]string{"": joined, "1": joined, "2": other} {
		path := modelPath
		if version != "" {
			path += "/versions/" + version
		}
		w := b.do(http.MethodGet, path+"/config", "")
		answer, err := client.ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: "m", Version: version})
		if w.Code != http.StatusOK || err != nil {
			t.Fatalf("version %q: %d %s, %v", version, w.Code, w.Body, err)
		}
		if diff := cmp.Diff(parsed(t, want), parsed(t, w.Body.String())); diff != "" {
			t.Errorf("version %q (-want +got):\n%s", version, diff)
		}
		over, err := json.Marshal(inference.JSON(answer.GetConfig()))
		if diff := cmp.Diff(parsed(t, want), parsed(t, string(over))); diff != "" || err != nil {
			t.Errorf("version %q over gRPC: %v (-want +got):\n%s", version, err, diff)
		}
	}
	if w := b.do(http.MethodGet, modelPath+"/versions/3/config", ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "m has no version 3") {
		t.Errorf("no such version: %d %s", w.Code, w.Body)
	}
	for _, tc := range []struct{ model, version, says string }{{"other", "", `no model \"other\"; the model is m`}, {"m", "3", "no version 3"}} {
		_, err := client.ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: tc.model, Version: tc.version})
		if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), strings.ReplaceAll(tc.says, `\`, "")) {
			t.Errorf("%v: %v", tc, err)
		}
	}
	for _, d := range []oip.Datatype{oip.Bool, oip.Uint8, oip.Int64, oip.FP16, oip.BF16, oip.FP64, oip.Bytes} {
		if want := strings.Replace("TYPE_"+string(d), "BYTES", "STRING", 1); dataType(d).String() != want {
			t.Errorf("%s is %v", d, dataType(d))
		}
	}
}

func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// counted are the counts of statistics, without their times.
func countsOf(m *inference.ModelStatistics) []uint64 {
	s := m.GetInferenceStats()
	counts := []uint64{m.GetInferenceCount(), m.GetExecutionCount()}
	for _, d := range []*inference.StatisticDuration{
		s.GetSuccess(), s.GetFail(), s.GetQueue(), s.GetComputeInput(), s.GetComputeInfer(), s.GetComputeOutput(), s.GetCacheHit(), s.GetCacheMiss(),
	} {
		counts = append(counts, d.GetCount())
	}
	for _, size := range m.GetBatchStats() {
		counts = append(counts, size.GetBatchSize(), size.GetComputeInput().GetCount(), size.GetComputeInfer().GetCount(), size.GetComputeOutput().GetCount())
	}
	return counts
}

func TestModelStatistics(t *testing.T) {
	b := newBatched(t)
	_, client := dial(t, b)
	ask := func(name, version string) []*inference.ModelStatistics {
		t.Helper()
		answer, err := client.ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{Name: name, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetModelStats()
	}
	began := time.Now().Truncate(time.Millisecond)
	const fails = `{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[13]}]}`
	const two = `{"inputs":[{"name":"x","shape":[2,1],"datatype":"FP32","data":[1,2]}]}`
	const misfit = `{"inputs":[{"name":"x","shape":[1,1],"datatype":"INT8","data":[1]}]}`
	for body, code := range map[string]int{request: 200, two: 200, fails: 500, misfit: 400} {
		if w := b.do(http.MethodPost, inferPath, body); w.Code != code {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	b.do(http.MethodPost, inferPath, request, VersionHeader, "2")
	all := ask("", "")
	if len(all) != 2 || all[0].GetName() != "m" || all[0].GetVersion() != "1" || all[1].GetVersion() != "2" {
		t.Fatalf("statistics %v", all)
	}
	// With the warm-up, of one row each, as in the metrics.
	const ones = 1 + warmUps
	want := []uint64{ones + 2, ones + 1, ones + 1, 1, ones + 1, ones + 1, ones + 1, ones + 1, 0, 0, 1, ones, ones, ones, 2, 1, 1, 1}
	if diff := cmp.Diff(want, countsOf(all[0])); diff != "" {
		t.Errorf("release 1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, countsOf(all[1])); diff != "" {
		t.Errorf("release 2 (-want +got):\n%s", diff)
	}
	for _, m := range all {
		s := m.GetInferenceStats()
		if last := time.UnixMilli(int64(m.GetLastInference())); last.Before(began) || last.After(time.Now()) {
			t.Errorf("release %s was last asked at %v, after %v", m.GetVersion(), last, began)
		}
		if s.GetSuccess().GetNs() < s.GetComputeInfer().GetNs()+s.GetQueue().GetNs() || s.GetComputeInfer().GetNs() == 0 {
			t.Errorf("release %s: %v", m.GetVersion(), s)
		}
	}
	for path, versions := range map[string]int{"/v2/models/stats": 2, modelPath + "/stats": 2, modelPath + "/versions/2/stats": 1} {
		w := b.do(http.MethodGet, path, "")
		var answer struct {
			Models []struct {
				Version string `json:"version"`
				Count   int64  `json:"inference_count"`
			} `json:"model_stats"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || len(answer.Models) != versions || answer.Models[versions-1].Count != 1 {
			t.Errorf("%s: %d %s, %v", path, w.Code, w.Body, err)
		}
	}
	if w := b.do(http.MethodGet, modelPath+"/versions/3/stats", ""); w.Code != http.StatusNotFound {
		t.Errorf("no such version: %d %s", w.Code, w.Body)
	}
	if _, err := client.ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{Name: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("no such model: %v", err)
	}
}

// A model may be called as a path of the protocol is.
func TestAModelThatIsCalledStats(t *testing.T) {
	g := New(Options{Store: newBench(t, 0).store, Target: "stats", Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = g.Close() }()
	if w := ask(g, http.MethodGet, "/v2/models/stats", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("metadata: %d %s", w.Code, w.Body)
	}
	if w := ask(g, http.MethodGet, "/v2/models/stats/stats", ""); w.Code != http.StatusOK {
		t.Errorf("statistics: %d %s", w.Code, w.Body)
	}
}

func TestWhatIsNotOfTriton(t *testing.T) {
	b := newBench(t, 0)
	for _, tc := range []struct{ method, path, says string }{
		{"POST", "/v2/systemsharedmemory/region/a/register", "shared memory is not supported; send the tensors in the request"},
		{"GET", "/v2/cudasharedmemory/status", "shared memory is not supported"},
		{"GET", "/v2/trace/setting", "there are no trace settings"},
		{"POST", modelPath + "/trace/setting", "there are no trace settings"},
		{"POST", "/v2/logging", "there are no log settings"},
		{"POST", modelPath + "/versions/1/generate_stream", "send the inputs to infer"},
	} {
		if w := b.do(tc.method, tc.path, ""); w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s %s: %d %s, want 501 with %q", tc.method, tc.path, w.Code, w.Body, tc.says)
		}
	}
}
