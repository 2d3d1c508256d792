package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/triton/tritontest"
)

func manifest(t *testing.T, e Engine, files ...string) artifact.Manifest {
	t.Helper()
	m := artifact.Manifest{Meta: e.Meta()}
	for _, path := range files {
		m.Files = append(m.Files, artifact.File{Path: path})
	}
	return m
}

func config(t *testing.T, text string) proto.Message {
	t.Helper()
	c, err := tritontest.Message([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func tensor(name string, kind oip.Datatype, shape ...int64) oip.TensorMetadata {
	return oip.TensorMetadata{Name: name, Datatype: kind, Shape: shape}
}

func list(tensors ...oip.TensorMetadata) []oip.TensorMetadata { return tensors }

func TestEngine(t *testing.T) {
	ids := tensor("ids", oip.Int64, -1, -1)
	for name, tc := range map[string]struct {
		engine  Engine
		files   []string
		configs map[string]string
		tree    []string // where = what
	}{
		"names of all kinds": {
			engine: Engine{Inputs: list(tensor("a \"b\"\\\n\x01é\u00a0", oip.Int8, 1)), Outputs: list(tensor("y", oip.Uint64, 1))},
			files:  []string{"model.plan"},
			configs: map[string]string{"m": `
				name: "m" platform: "tensorrt_plan" default_model_filename: "model.plan"
				input { name: "a \"b\"\\\n\001\303\251\302\240" data_type: TYPE_INT8 dims: 1 } output { name: "y" data_type: TYPE_UINT64 dims: 1 }`},
			tree: []string{"m/1/model.plan = model.plan"},
		},
		"batches": {
			engine: Engine{Inputs: list(tensor("image", oip.FP32, -1, 3, 224, 224)), Outputs: list(tensor("class", oip.FP32, -1, 10)), MaxBatch: 32},
			files:  []string{"model.plan"},
			configs: map[string]string{"m": `
				name: "m" platform: "tensorrt_plan" default_model_filename: "model.plan" max_batch_size: 32 dynamic_batching {}
				input { name: "image" data_type: TYPE_FP32 dims: [3, 224, 224] } output { name: "class" data_type: TYPE_FP32 dims: [10] }`},
			tree: []string{"m/1/model.plan = model.plan"},
		},
		"one row": {
			engine: Engine{Inputs: list(tensor("x", oip.Uint8, 1, 4)), Outputs: list(tensor("y", oip.Bool, 1, 4))},
			files:  []string{"model.plan"},
			configs: map[string]string{"m": `
				name: "m" platform: "tensorrt_plan" default_model_filename: "model.plan"
				input { name: "x" data_type: TYPE_UINT8 dims: [1, 4] } output { name: "y" data_type: TYPE_BOOL dims: [1, 4] }`},
			tree: []string{"m/1/model.plan = model.plan"},
		},
		"an output with no dimension but the batch's": {
			engine: Engine{Inputs: list(tensor("x", oip.FP32, -1, 4)), Outputs: list(tensor("y", oip.FP32, -1)), MaxBatch: 8},
			files:  []string{"model.plan"},
			configs: map[string]string{"m": `
				name: "m" platform: "tensorrt_plan" default_model_filename: "model.plan"
				input { name: "x" data_type: TYPE_FP32 dims: [-1, 4] } output { name: "y" data_type: TYPE_FP32 dims: [-1] }`},
			tree: []string{"m/1/model.plan = model.plan"},
		},
		"a front": {
			engine: Engine{
				Inputs: list(ids, tensor("age", oip.FP32, -1, 1)), Outputs: list(tensor("class", oip.FP32, -1, 2)), MaxBatch: 4,
				Front: &Front{Inputs: list(tensor("text", oip.Bytes, -1)), Outputs: list(ids)},
			},
			files: []string{"front.onnx", "front.onnx.data", "model.plan"},
			configs: map[string]string{
				"m": `
					name: "m" platform: "ensemble"
					input { name: "text" data_type: TYPE_STRING dims: [-1] } input { name: "age" data_type: TYPE_FP32 dims: [-1, 1] }
					output { name: "class" data_type: TYPE_FP32 dims: [-1, 2] }
					ensemble_scheduling {
						step { model_name: "m-front" model_version: -1 input_map { key: "text" value: "text" } output_map { key: "ids" value: "ids" } }
						step {
							model_name: "m-engine" model_version: -1
							input_map { key: "ids" value: "ids" } input_map { key: "age" value: "age" } output_map { key: "class" value: "class" }
						}
					}`,
				"m-front": `
					name: "m-front" platform: "onnxruntime_onnx" default_model_filename: "model.onnx" instance_group { count: 1 kind: KIND_CPU }
					input { name: "text" data_type: TYPE_STRING dims: [-1] } output { name: "ids" data_type: TYPE_INT64 dims: [-1, -1] }`,
				"m-engine": `
					name: "m-engine" platform: "tensorrt_plan" default_model_filename: "model.plan" max_batch_size: 4 dynamic_batching {}
					input { name: "ids" data_type: TYPE_INT64 dims: [-1] } input { name: "age" data_type: TYPE_FP32 dims: [1] }
					output { name: "class" data_type: TYPE_FP32 dims: [2] }`,
			},
			tree: []string{"m-engine/1/model.plan = model.plan", "m-front/1/front.onnx.data = front.onnx.data", "m-front/1/model.onnx = front.onnx"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := TensorRT("m", manifest(t, tc.engine, tc.files...))
			if err != nil {
				t.Fatal(err)
			}
			for model, want := range tc.configs {
				got := config(t, string(r.Texts[model+"/config.pbtxt"]))
				if diff := cmp.Diff(config(t, want), got, protocmp.Transform()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", model, diff)
				}
			}
			var tree []string
			for _, at := range slices.Sorted(maps.Keys(r.Files)) {
				tree = append(tree, at+" = "+r.Files[at].Path)
			}
			if diff := cmp.Diff(tc.tree, tree); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngineThatTritonCannotServe(t *testing.T) {
	for want, e := range map[string]Engine{
		`tensor "n" of the engine has an unsupported element type`:                   {Inputs: list(tensor("n", "FP8", 1)), Outputs: list(tensor("y", oip.FP32, 1))},
		`tensor "n" of the engine has no dimensions`:                                 {Inputs: list(tensor("n", oip.Int64)), Outputs: list(tensor("y", oip.FP32, 1))},
		"an engine of TensorRT for RTX, which Triton's TensorRT backend cannot load": {Flavor: spec.FlavorRTX},
	} {
		if _, err := TensorRT("m", manifest(t, e, EngineFile)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := TensorRT("m", artifact.Manifest{Files: []artifact.File{{Path: EngineFile}}}); err == nil || !strings.Contains(err.Error(), "does not describe an engine") {
		t.Errorf("an engine without meta data: %v", err)
	}
}

// What is written for Triton can be read, and says what the engine says of itself, whatever its tensors are called.
func FuzzConfig(f *testing.F) {
	f.Add("x", "y", int64(-1), int64(4), int64(8))
	f.Add("a \"b\"\\\n\x01é\u00a0\U0001f600'", "}\xff", int64(3), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, in, out string, rows, width, batch int64) {
		e := Engine{Inputs: list(tensor(in, oip.FP32, rows, width)), Outputs: list(tensor(out, oip.Int64, rows, width)), MaxBatch: batch}
		m := manifest(t, e, EngineFile)
		described, err := DescribeEngine(m)
		if err != nil {
			return
		}
		r, err := TensorRT("m", m)
		if err != nil {
			t.Fatal(err)
		}
		text := r.Texts["m/"+ConfigFile]
		got, err := tritontest.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got.Name != "m" || got.Input[0].Name != described.Inputs[0].Name || got.Output[0].Name != described.Outputs[0].Name {
			t.Errorf("%+v was written as\n%s", described, text)
		}
		want := described.Inputs[0].Shape
		if batch > 0 {
			want = want[1:] // Triton knows of the batch's dimension
		}
		if fmt.Sprint(got.Input[0].Dims) != fmt.Sprint(want) {
			t.Errorf("the shape %v was written as\n%s", want, text)
		}
	})
}
