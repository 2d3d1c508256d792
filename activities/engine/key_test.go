package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
)

// keyed is all that the key of a step is made of.
type keyed struct {
	pipeline, env string
	params        map[string]string
	files         []artifact.File
	python        string
	beside        string // the virtual environment beside the pipeline
	platform      trtexec.Platform
	noTensorRT    bool
	onlyGPU       string // without trtexec
	envFile       string
	inline        bool
}

const keyedPipeline = `sluice: pipeline/v1
name: p
params: {least: {type: int, default: 3}, other: {type: int, default: 1}}
steps:
  run: {run: {command: [run], outputs: {n: {type: int}}}}
  some: {run: {command: [run], files: [lib], outputs: {n: {type: int}}}}
  python: {run: {command: [run], files: [lib], runtime: {python: own.txt}}}
  named: {run: {command: [run], files: [p.yaml], outputs: {n: {type: int}}}}
  score: {evaluate: {command: [score], metrics: [f1]}}
  fit: {train: {command: [fit], pool: gpu, outputs: {m: {type: model, path: m}}}}
  own: {train: {command: [fit], pool: gpu, runtime: {image: "mine:1"}, files: [lib]}}
  here: {train: {command: [fit], pool: cpu, files: [lib]}}
  there: {evaluate: {command: [score], pool: gpu, metrics: [f1]}}
  beside: {run: {command: [run], pool: cpu, files: [lib]}}
  kid: {pipeline: {steps: {a: {run: {command: [a]}}}}}
  reads: {pipeline: {steps: {a: {run: {command: [a], files: [p.yaml]}}}}}
  deep: {pipeline: {steps: {a: {pipeline: {steps: {b: {clean: {inputs: {raw: "${steps.make.raw}"}, transforms: [
    {type: ReadFromJson, config: {path: "${inputs.raw.path}/*.jsonl"}}, {type: Exec, name: e, config: {command: [e], files: [p.yaml]}},
    {type: Exec, name: f, config: {command: [f]}}, {type: WriteToJson}]}}, make: {run: {command: [make], outputs: {raw: {type: dataset, path: raw}}}}}}}}}}
  tidy:
    clean:
      inputs: {raw: "${steps.make.raw}"}
      transforms:
        - {type: ReadFromJson, config: {path: "${inputs.raw.path}/*.jsonl"}}
        - {type: Filter, config: {keep: "row.n >= params.least"}}
        - {type: WriteToJson}
  pack: {compile: {model: "${steps.net.m}", samples: {dataset: "${steps.make.raw}"}, variants: {a: {onnx: {}}}}}
  engine: {compile: {model: "${steps.net.m}", samples: {dataset: "${steps.make.raw}"}, variants: {a: {onnx: {}}, b: {tensorrt: {}}}}}
  ahead: {compile: {model: "${steps.net.m}", samples: {dataset: "${steps.make.raw}"}, variants: {a: {onnx: {}}, b: {tensorrt: {flavor: rtx, compute: [L4]}}}}}
  built: {compile: {model: "${steps.net.m}", samples: {dataset: "${steps.make.raw}"}, variants: {b: {tensorrt: {}}}, pool: gpu, resources: {gpu: 1}}}
  alike: {compile: {model: "${steps.net.m}", samples: {dataset: "${steps.make.raw}"}, variants: {b: {tensorrt: {}}}, pool: cpu, resources: {gpu: 1}}}
  ocr:
    clean:
      inputs: {raw: "${steps.make.raw}"}
      transforms:
        - {type: ReadFromJson, config: {path: "${inputs.raw.path}/*.jsonl"}}
        - {type: Filter, config: {keep: "row.n >= params.least"}}
        - {type: Exec, config: {command: [lib/ocr], files: [lib]}}
        - {type: WriteToJson}
      pool: gpu
  net: {run: {command: [make], outputs: {m: {type: model, path: m}}}}
  make: {run: {command: [make], outputs: {raw: {type: dataset, path: raw}}}}
`

const keyedEnvironment = `sluice: environment/v1
name: lab
pools:
  gpu: {kubernetes: {}, runtime: {image: "train:1", python: gpu.txt}, limits: {nodes: 4}, usd_per_hour: {on_demand: 2}}
  cpu: {local: {nodes: 2}, runtime: {python: cpu.txt}}
`

// keyedFolder has all files. What is in requirements files is read.
type keyedFolder struct{}

func (keyedFolder) Exists(string) bool                { return true }
func (keyedFolder) LeftOut(string) (why, help string) { return "", "" }
func (keyedFolder) ReadFile(path string) ([]byte, error) {
	text, ok := map[string]string{
		"own.txt": "numpy\n-r more/deep.txt\n", "more/deep.txt": "--constraint=deeper.txt # pinned\n", "more/deeper.txt": "-r ../own.txt\n", "cpu.txt": "-rmore/deeper.txt\n",
		"hash.yaml": hashingChild, "hand.yaml": handingChild, "after.yaml": afterChild,
	}[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func files(names ...string) []artifact.File {
	var all []artifact.File
	for _, name := range names {
		path, content, _ := strings.Cut(name, "=")
		all = append(all, artifact.File{Path: path, Digest: content})
	}
	return all
}

func theKeyed() keyed {
	return keyed{
		pipeline: keyedPipeline, env: keyedEnvironment, python: "3.13", envFile: "env.yaml",
		platform: trtexec.Platform{GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15", TensorRT: "10.3.0"},
		files:    files("p.yaml", "env.yaml", "fit", "lib/a", "gpu.txt", "cpu.txt", "own.txt", "more/deep.txt", "more/deeper.txt", "run.yaml"),
	}
}

// parts are those of a step's key.
func (k keyed) parts(t *testing.T, step string) map[string]string {
	t.Helper()
	return k.partsIn(t, newBench(t, "steps: {one: {run: {command: [one]}}}\n"), step)
}

// partsIn are those of a step's key in a store.
func (k keyed) partsIn(t *testing.T, b *bench, step string) map[string]string {
	t.Helper()
	program, diags := dsl.Compile(document.File{Name: "p.yaml", Source: []byte(k.pipeline)}, document.File{Name: k.envFile, Source: []byte(k.env)}, keyedFolder{})
	if program == nil {
		t.Fatalf("the pipeline is refused:\n%s", diags.Text(false))
	}
	sub := &Submitted{
		Submission: record.Submission{File: "p.yaml", EnvFile: k.envFile, Params: k.params, Inline: k.inline, Python: k.beside}, Program: program, files: k.files,
	}
	if sub.ParamValues, diags = program.Params(k.params); diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	b.engine.Python = func(_ context.Context, submitted string) (string, error) { return k.python + submitted, nil }
	b.engine.Platform = func(context.Context) (trtexec.Platform, error) {
		if k.noTensorRT {
			return trtexec.Platform{GPU: k.onlyGPU}, &trtexec.UnavailableError{}
		}
		return k.platform, nil
	}
	resolved, err := program.Resolve(step, spec.Vars{Params: sub.ParamValues, Steps: map[string]spec.StepResult{
		"make": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"raw": {"type": "dataset", "digest": "sha256:00"}}`)},
		"net":  {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"m": {"type": "model", "digest": "sha256:01"}}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := b.engine.parts(t.Context(), sub, nodeOf(t, program, step), resolved)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func nodeOf(t *testing.T, program *dsl.Program, step string) spec.Node {
	t.Helper()
	for _, node := range program.Graph() {
		if node.ID == step {
			return node
		}
	}
	t.Fatalf("no step %s", step)
	return spec.Node{}
}

// TestKeys: what a step is given is in its key, and what says nothing of its result is not.
func TestKeys(t *testing.T) {
	edit := func(old, replacement string) func(*keyed) {
		return func(k *keyed) {
			was := *k
			k.pipeline, k.env = strings.Replace(k.pipeline, old, replacement, 1), strings.Replace(k.env, old, replacement, 1)
			if k.pipeline == was.pipeline && k.env == was.env {
				t.Fatalf("%q is nowhere", old)
			}
		}
	}
	file := func(path string) func(*keyed) {
		return func(k *keyed) {
			k.files = slices.Clone(k.files)
			for i := range k.files {
				if k.files[i].Path == path {
					k.files[i].Digest = "edited"
					return
				}
			}
			t.Fatalf("%s is nowhere", path)
		}
	}
	param := func(name, value string) func(*keyed) {
		return func(k *keyed) { k.params = map[string]string{name: value} }
	}
	python := func(k *keyed) { k.python = "3.14" }
	tests := []struct {
		name, step string
		before     func(*keyed)
		change     func(*keyed)
		want       []string
	}{
		{"a parameter that rows are compared with", "tidy", nil, param("least", "4"), []string{"params.least"}},
		{"its type", "tidy", nil, edit("least: {type: int", "least: {type: double"), []string{"params.least"}},
		{"a parameter that they are not", "tidy", nil, param("other", "4"), nil},
		{"the rows' condition", "tidy", nil, edit("row.n >= ", "row.n > "), []string{"transforms"}},
		{"Python, where no program runs", "tidy", nil, python, nil},

		{"the image of the pool", "fit", nil, edit("train:1", "train:2"), []string{"pools.gpu.runtime"}},
		{"the requirements file of the pool", "fit", nil, edit("python: gpu.txt", "python: cpu.txt"), []string{"pools.gpu.runtime"}},
		{"what is in it", "fit", nil, file("gpu.txt"), []string{"files"}},
		{"what its own requirements file includes", "python", nil, file("more/deep.txt"), []string{"files"}},
		{"what that includes", "python", nil, file("more/deeper.txt"), []string{"files"}},
		{"what the pool's includes", "here", nil, file("more/deeper.txt"), []string{"files"}},
		{"what is in it, where the step names its files", "here", nil, file("cpu.txt"), []string{"files"}},
		{"the image of another pool", "here", nil, edit("train:1", "train:2"), nil},
		{"the image of the pool, where the step has its own", "own", nil, edit("train:1", "train:2"), nil},
		{"how large the pool is", "fit", nil, edit("nodes: 4", "nodes: 5"), nil},
		{"what it costs", "fit", nil, edit("on_demand: 2", "on_demand: 3"), nil},
		{"Python of this machine, on a pool that is elsewhere", "fit", nil, python, nil},
		{"Python of this machine, on a pool that is here", "here", nil, python, []string{"python"}},
		{"any pool, of a child", "kid", nil, edit("train:1", "train:2"), []string{"pools.gpu.runtime"}},
		{"Python, of a run", "run", nil, python, []string{"python"}},
		{"Python beside the pipeline", "run", nil, func(k *keyed) { k.beside = "/p/.venv" }, []string{"python"}},
		{"Python, of an evaluation", "score", nil, python, []string{"python"}},
		{"Python of this machine, of an evaluation on a pool that is elsewhere", "there", nil, python, nil},
		{"the image of its pool", "there", nil, edit("train:1", "train:2"), []string{"pools.gpu.runtime"}},
		{"its own image", "there", edit("pool: gpu, metrics", "pool: gpu, runtime: {image: a}, metrics"), edit("image: a", "image: b"), []string{"runtime"}},
		{"what it asks of its node", "there", nil, edit("pool: gpu, metrics", "pool: gpu, resources: {gpu: 1}, metrics"), []string{"resources"}},
		{"a run that moves to a pool", "run", nil, edit("{command: [run], outputs", "{command: [run], pool: gpu, outputs"), []string{"capacity", "pool", "pools.gpu.runtime", "python"}},
		{"Python of this machine, of a run on a pool that is here", "beside", nil, python, []string{"python"}},
		{"what the requirements file of its pool includes", "beside", nil, file("more/deeper.txt"), []string{"files"}},
		{"Python, of a child", "kid", nil, python, []string{"python"}},

		{"the GPU, where no engine is built", "pack", nil, func(k *keyed) { k.platform.GPU = "NVIDIA H100" }, nil},
		{"the GPU", "engine", nil, func(k *keyed) { k.platform.GPU = "NVIDIA H100" }, []string{"gpu"}},
		{"its compute capability", "engine", nil, func(k *keyed) { k.platform.ComputeCapability = "9.0" }, []string{"compute_capability"}},
		{"its driver", "engine", nil, func(k *keyed) { k.platform.Driver = "560.1" }, []string{"driver"}},
		{"TensorRT", "engine", nil, func(k *keyed) { k.platform.TensorRT = "11.1.0" }, []string{"tensorrt"}},
		{"TensorRT, of a child", "kid", nil, func(k *keyed) { k.platform.TensorRT = "11.1.0" }, []string{"tensorrt"}},
		{
			"a machine without TensorRT", "engine", nil, func(k *keyed) { k.noTensorRT = true },
			[]string{"compute_capability", "driver", "gpu", "tensorrt"},
		},
		{"Python, of a compile step", "pack", nil, python, []string{"python"}},
		{"the GPU on which an engine of TensorRT for RTX is measured", "ahead", nil, func(k *keyed) { k.platform.GPU = "NVIDIA H100" }, []string{"gpu"}},
		{"trtexec, which does not build it", "ahead", nil, func(k *keyed) { k.platform.TensorRT = "11.1.0" }, nil},
		{
			"a machine without GPU", "ahead", nil, func(k *keyed) { k.noTensorRT = true },
			[]string{"compute_capability", "driver", "gpu"},
		},
		{
			"a GPU without trtexec", "ahead", func(k *keyed) { k.noTensorRT = true }, func(k *keyed) { k.noTensorRT, k.onlyGPU = true, "NVIDIA L4" },
			[]string{"compute_capability", "driver", "gpu"},
		},
		{"the GPU of this machine, where engines are built elsewhere", "built", nil, func(k *keyed) { k.platform.GPU = "NVIDIA H100" }, nil},
		{"the GPU, of a pool that is here", "alike", nil, func(k *keyed) { k.platform.GPU = "NVIDIA H100" }, []string{"gpu"}},
		{"Python, where engines are built elsewhere", "built", nil, python, nil},
		{"the GPU that is requested", "built", nil, edit("pool: gpu, resources: {gpu: 1}", "pool: gpu, resources: {gpu: 1, gpu_type: L4}"), []string{"resources"}},
		{"the image of its pool, of a compile step", "built", nil, edit("train:1", "train:2"), []string{"pools.gpu.runtime"}},
		{"its own image, of a compile step", "built", nil, edit("pool: gpu, resources: {gpu: 1}", "pool: gpu, resources: {gpu: 1}, runtime: {image: a}"), []string{"pools.gpu.runtime", "runtime"}},
		{"a requirements file that it installs", "built", nil, file("gpu.txt"), []string{"files"}},
		{"a file that it does not", "built", nil, file("fit"), nil},
		{"a file, of a compile step beside the worker", "pack", nil, file("fit"), nil},
		{
			"a compile step that moves to a pool", "pack", nil, edit("variants: {a: {onnx: {}}}}}", "variants: {a: {onnx: {}}}, pool: gpu}}"),
			[]string{"capacity", "files", "pool", "pools.gpu.runtime", "python"},
		},
		{"a parameter that rows on a pool are compared with", "ocr", nil, edit("{type: int, default: 3}", "{type: int, default: 5}"), []string{"params.least"}},
		{"a parameter that they are not", "ocr", nil, edit("{type: int, default: 1}", "{type: int, default: 5}"), nil},
		{"Python, where rows are cleaned elsewhere", "ocr", nil, python, nil},
		{"the image of its pool, of a clean step", "ocr", nil, edit("train:1", "train:2"), []string{"pools.gpu.runtime"}},
		{"a file of its programs, on a pool", "ocr", nil, file("lib/a"), []string{"files"}},
		{"a file that is not, on a pool", "ocr", nil, file("fit"), nil},
		{
			"a clean step that moves to a pool", "tidy", nil, edit("        - {type: WriteToJson}\n  pack", "        - {type: WriteToJson}\n      pool: gpu\n  pack"),
			[]string{"capacity", "files", "pool", "pools.gpu.runtime"},
		},

		{"a file", "run", nil, file("fit"), []string{"files"}},
		{"a file that is not named", "some", nil, file("fit"), nil},
		{"one in a folder that is", "some", nil, file("lib/a"), []string{"files"}},
		{"the pipeline's file", "run", nil, file("p.yaml"), nil},
		{"the pipeline's file, named", "named", nil, file("p.yaml"), []string{"files"}},
		{"the pipeline's file, of a child", "kid", nil, file("p.yaml"), nil},
		{"the pipeline's file, that a child's step names", "reads", nil, file("p.yaml"), []string{"files"}},
		{"the pipeline's file, that a program in a child's child names", "deep", nil, file("p.yaml"), []string{"files"}},
		{"a file that a child's step does not name", "reads", nil, file("fit"), []string{"files"}},
		{"the environment", "run", nil, file("env.yaml"), nil},
		{"the environment, named", "named", edit("files: [p.yaml]", "files: [env.yaml]"), file("env.yaml"), []string{"files"}},
		{"all, named", "some", edit("files: [lib]", "files: [.]"), file("fit"), []string{"files"}},
		{"any file, where none is named", "some", edit("files: [lib]", "files: none"), file("lib/a"), nil},
		{"what is named, where none was", "some", edit("files: [lib]", "files: none"), edit("files: none", "files: [lib]"), []string{"files"}},
		{"the requirements file of a step that depends on no files", "python", edit("files: [lib], runtime", "files: none, runtime"), file("more/deeper.txt"), []string{"files"}},
		{"that of the pool", "here", edit("cpu, files: [lib]", "cpu, files: none"), file("cpu.txt"), []string{"files"}},
		{"any file, where the only program names none", "tidy", edit("        - {type: WriteToJson}", "        - {type: Exec, name: e, config: {command: [e], files: none}}\n        - {type: WriteToJson}"), file("fit"), nil},
		{"a file that is called as an environment elsewhere", "run", func(k *keyed) { k.envFile = "../env.yaml" }, file("env.yaml"), []string{"files"}},
		{"a file that is called as a child written in place", "run", func(k *keyed) { k.inline = true }, file("p.yaml"), []string{"files"}},

		{"a comment", "run", nil, edit("name: p\n", "name: p # so\n"), nil},
		{"a timeout, retries, and what follows", "run", nil, edit("outputs: {n: {type: int}}}}", "outputs: {n: {type: int}}}, timeout: 1h, retry: {attempts: 9}, gate: n > 0, needs: [make]}"), nil},
		{"a variable", "run", nil, edit("outputs: {n: {type: int}}}}", "outputs: {n: {type: int}}}, env: {A: b}}"), []string{"env.A"}},
		{"its version", "run", nil, edit("outputs: {n: {type: int}}}}", "outputs: {n: {type: int}}}, cache: {version: a}}"), []string{"cache.version"}},
	}
	for _, tt := range tests {
		t.Run(tt.step+"/"+tt.name, func(t *testing.T) {
			is := theKeyed()
			if tt.before != nil {
				tt.before(&is)
			}
			was := is
			tt.change(&is)
			before, after := was.parts(t, tt.step), is.parts(t, tt.step)
			if diff := cmp.Diff(tt.want, differing(before, after)); diff != "" {
				t.Errorf("parts that changed (-want +got):\n%s", diff)
			}
			if (keyOf(before) != keyOf(after)) != (tt.want != nil) {
				t.Errorf("another key: %v, want %v", keyOf(before) != keyOf(after), tt.want != nil)
			}
		})
	}
}

// hashingChild hashes with the secret that its parameter names.
const hashingChild = `sluice: pipeline/v1
name: hash
params: {which: {type: string, secret: true, default: one}}
steps:
  mask: {clean: {transforms: [{type: ReadFromJson, config: {path: /rows}}, {type: MaskPII, config: {fields: [text], action: hash, key: K}}, {type: WriteToJson}]}, secrets: {K: "${params.which}"}}
`

// handingChild has children of its own, whose secrets it names and leaves to them.
const handingChild = `sluice: pipeline/v1
name: hand
params: {own: {type: string, secret: true, default: three}}
steps:
  reads: {run: {command: [reads]}, secrets: {K: "${params.own}"}}
  default: {pipeline: {file: hash.yaml}}
  constant: {pipeline: {file: hash.yaml, params: {which: two}}}
`

// afterChild hashes in a step that comes after the others.
const afterChild = `sluice: pipeline/v1
name: after
steps: {a: {run: {command: [a]}}}
finally:
  mask: {clean: {transforms: [{type: ReadFromJson, config: {path: /rows}}, {type: MaskPII, config: {fields: [text], action: hash, key: K}}, {type: WriteToJson}]}, secrets: {K: one}}
`

// TestKeysOfChildrenHaveTheirHashKeys: what a child of whatever depth makes hashes with is in the key of the step that runs it.
func TestKeysOfChildrenHaveTheirHashKeys(t *testing.T) {
	const mask = `clean: {transforms: [{type: ReadFromJson, config: {path: /rows}}, {type: MaskPII, config: {fields: "${['text']}", action: hash, key: K}}, {type: WriteToJson}]}, secrets: {K: one}`
	one, two, unknown := "secrets.one.value", "secrets.two.value", "secrets.value"
	tests := []struct {
		name, step, change string
		want               []string
	}{
		{"steps in place", `pipeline: {steps: {mask: {` + mask + `}}}`, "ONE", []string{one}},
		{"steps in place, another secret", `pipeline: {steps: {mask: {` + mask + `}}}`, "TWO", nil},
		{"steps after the main ones", `pipeline: {file: after.yaml}`, "ONE", []string{one}},
		{"in place, in place", `pipeline: {steps: {inner: {pipeline: {steps: {mask: {` + mask + `}}}}}}`, "ONE", []string{one}},
		{"a file, by default", `pipeline: {file: hash.yaml}`, "ONE", []string{one}},
		{"a file, by default, another secret", `pipeline: {file: hash.yaml}`, "TWO", nil},
		{"a file, by a param", `pipeline: {file: hash.yaml, params: {which: two}}`, "TWO", []string{two}},
		{"a file, by an expression", `pipeline: {file: hash.yaml, params: {which: "${params.name}"}}`, "TWO", []string{two}},
		{"a file, by a param that is not the default", `pipeline: {file: hash.yaml, params: {which: two}}`, "ONE", nil},
		{"a file of files, by default", `pipeline: {file: hand.yaml}`, "ONE", []string{one}},
		{"a file of files, by a param", `pipeline: {file: hand.yaml}`, "TWO", []string{two}},
		{"a file of files, what nobody hashes with", `pipeline: {file: hand.yaml}`, "THREE", nil},
		{"a file in place, by an expression", `pipeline: {params: {n: two}, steps: {inner: {pipeline: {file: hash.yaml, params: {which: "${params.n}"}}}}}`, "", []string{unknown}},
		{"a value that is not there", `pipeline: {file: hash.yaml, params: {which: absent}}`, "", []string{"secrets.absent.value"}},
		{"no hashes", `pipeline: {steps: {a: {run: {command: [a]}, secrets: {K: one}}}}`, "ONE", nil},
		{"masks without hashes", `pipeline: {steps: {a: {` + strings.NewReplacer("action: hash, key: K", "action: mask", "secrets: {K: one}", "timeout: 1h").Replace(mask) + `}}}`, "ONE", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			is := keyed{
				pipeline: "sluice: pipeline/v1\nname: p\nparams: {name: {type: string, default: two}}\nsteps:\n  kid: {" + tt.step + "}\n",
				env:      "sluice: environment/v1\nname: e\nsecrets: {one: {env: TEST_ONE}, two: {env: TEST_TWO}, three: {env: TEST_THREE}, absent: {env: TEST_ABSENT}}\n", files: []artifact.File{},
			}
			for _, name := range []string{"ONE", "TWO", "THREE"} {
				t.Setenv("TEST_"+name, "was-"+name)
			}
			b := newBench(t, "steps: {one: {run: {command: [one]}}}\n")
			before := is.partsIn(t, b, "kid")
			if tt.change != "" {
				t.Setenv("TEST_"+tt.change, "is-another")
			}
			if diff := cmp.Diff(tt.want, differing(before, is.partsIn(t, b, "kid"))); diff != "" {
				t.Errorf("parts that changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeyHasTheWholeSpec sets every field of every kind's spec in turn, and wants another key of each.
func TestKeyHasTheWholeSpec(t *testing.T) {
	b := newBench(t, "steps: {one: {run: {command: [one]}}}\n")
	sub := &Submitted{Program: b.program, files: []artifact.File{}}
	key := func(kind spec.Kind, sp any) string {
		raw, err := json.Marshal(sp)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := b.engine.parts(t.Context(), sub, spec.Node{ID: "one", Kind: kind}, dsl.Resolved{Spec: raw})
		if err != nil {
			t.Fatal(err)
		}
		return keyOf(parts)
	}
	for kind, sp := range map[spec.Kind]any{
		spec.KindRun: &spec.Run{}, spec.KindEvaluate: &spec.Evaluate{}, spec.KindTrain: &spec.Train{}, spec.KindClean: &spec.Clean{},
		spec.KindCompile: &spec.CompileModel{}, spec.KindPipeline: &spec.ChildPipeline{},
	} {
		typ := reflect.TypeOf(sp).Elem()
		none := key(kind, sp)
		seen := map[string]string{none: "nothing"}
		for path, value := range eachFieldSet(typ) {
			got := key(kind, value)
			// Drift is judged, of files that are named the contents count, and parameters by themselves.
			apart := path == "Files" || kind == spec.KindClean && (strings.HasPrefix(path, "Drift") || strings.HasPrefix(path, "RowParams"))
			if apart != (got == none) {
				t.Errorf("%s.%s: another key: %v", typ.Name(), path, got != none)
			} else if other, same := seen[got]; same && !apart {
				t.Errorf("%s.%s has the key of %s", typ.Name(), path, other)
			}
			seen[got] = path
		}
		if len(seen) < 5 {
			t.Errorf("%s: %d keys", typ.Name(), len(seen))
		}
	}
}

// eachFieldSet makes, for every field of a struct that JSON has, however deep, a value in which that one is set.
func eachFieldSet(typ reflect.Type) map[string]any {
	all := map[string]any{}
	for path, set := range settersOf(typ, 4) {
		v := reflect.New(typ)
		set(v.Elem())
		all[path] = v.Interface()
	}
	return all
}

// settersOf set the fields of a value of a type, to a depth.
func settersOf(typ reflect.Type, depth int) map[string]func(reflect.Value) {
	all := map[string]func(reflect.Value){}
	within := func(at string, typ reflect.Type, enter func(reflect.Value) (in reflect.Value, done func())) {
		for path, set := range settersOf(typ, depth-1) {
			all[strings.TrimSuffix(at+"."+path, ".")] = func(v reflect.Value) {
				in, done := enter(v)
				set(in)
				done()
			}
		}
	}
	none := func() {}
	switch typ.Kind() {
	case reflect.String:
		all[""] = func(v reflect.Value) { v.SetString("x") }
	case reflect.Bool:
		all[""] = func(v reflect.Value) { v.SetBool(true) }
	case reflect.Int, reflect.Int64:
		all[""] = func(v reflect.Value) { v.SetInt(7) }
	case reflect.Float64:
		all[""] = func(v reflect.Value) { v.SetFloat(0.7) }
	case reflect.Interface:
		all[""] = func(v reflect.Value) { v.Set(reflect.ValueOf("x")) }
	case reflect.Pointer:
		if depth > 0 {
			within("", typ.Elem(), func(v reflect.Value) (reflect.Value, func()) {
				v.Set(reflect.New(typ.Elem()))
				return v.Elem(), none
			})
		}
	case reflect.Slice:
		switch {
		case typ == reflect.TypeFor[json.RawMessage]():
			all[""] = func(v reflect.Value) { v.SetBytes([]byte(`"x"`)) }
		case depth > 0:
			within("", typ.Elem(), func(v reflect.Value) (reflect.Value, func()) {
				v.Set(reflect.MakeSlice(typ, 1, 1))
				return v.Index(0), none
			})
		}
	case reflect.Map:
		if depth > 0 {
			within("", typ.Elem(), func(v reflect.Value) (reflect.Value, func()) {
				item := reflect.New(typ.Elem()).Elem()
				return item, func() {
					v.Set(reflect.MakeMap(typ))
					v.SetMapIndex(reflect.ValueOf("x").Convert(typ.Key()), item)
				}
			})
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(typ) {
			if depth == 0 || !f.IsExported() || f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			within(f.Name, f.Type, func(v reflect.Value) (reflect.Value, func()) { return v.FieldByIndex(f.Index), none })
		}
	}
	return all
}

// TestKeyHasAllThatAStepIsGiven fails when somebody gives steps something else, until that is in the key or is said to have no place there.
func TestKeyHasAllThatAStepIsGiven(t *testing.T) {
	known := map[reflect.Type]map[string]string{
		reflect.TypeFor[record.StepInput](): {
			"Run": "says who asks", "Step": "says who asks", "Kind": "kind", "Spec": "its keys", "SpecRef": "its keys", "Env": "env",
			"Secrets": "secrets", "Workspace": "files", "Submission": "pools, params", "Fresh": "is about the cache itself",
			"InPlace": "read", "ResumeRun": "did the same",
			"AttemptTimeout": "bounds an attempt", "AnyWorker": "is about where it runs", "Python": "python", "Needs": "needs",
		},
		reflect.TypeFor[dsl.Resolved](): {
			"Run": "is `when`", "Spec": "its keys", "Env": "env", "Secrets": "secrets", "Summary": "is for people",
			"Cache": "cache.version", "Files": "files", "Programs": "files", "Params": "params",
			"CacheGiven": "is about the cache", "InPlace": "read, and the spec",
		},
		reflect.TypeFor[spec.Runtime](): {"Python": "pools", "Image": "pools"},
		reflect.TypeFor[record.Submission](): {
			"File": "is a name", "Inline": "is about a name", "Pipeline": "the spec", "EnvFile": "is a name", "Environment": "pools",
			"Params": "params, the spec", "Values": "params, the spec", "Parents": "are names", "Workspace": "files", "Python": "python",
		},
		reflect.TypeFor[spec.Pool](): {
			"Runtime": "pools", "Local": "python, and where it runs", "Kubernetes": "where it runs", "EC2": "where it runs", "Capacity": "what is bought",
			"Limits": "what is bought", "Node": "what is bought", "USDPerHour": "what is bought", "MetricsListen": "is for Prometheus",
			"RetryFor": "what is bought",
		},
	}
	for typ, fields := range known {
		var names []string
		for _, f := range reflect.VisibleFields(typ) {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(fields)), names); diff != "" {
			t.Errorf("%s has other fields than are known to be in the key, or to have no place there (-known +got):\n%s", fmt.Sprint(typ), diff)
		}
	}
}

// TestProgramsDigest: what the programs of a clean step made before is not taken over when the Python, its packages, a file or what they are
// given has changed.
func TestProgramsDigest(t *testing.T) {
	b := newBench(t, "steps: {one: {run: {command: [one]}}}\n")
	python := "3.13"
	b.engine.Python = func(context.Context, string) (string, error) { return python, nil }
	sub := &Submitted{files: files("rate.py=1", "other=1")}
	digest := func(given ...any) string {
		t.Helper()
		d, err := b.engine.ProgramsDigest(t.Context(), sub, []string{"rate.py"}, given...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	seen := map[string]string{digest("env"): "the first"}
	sub = &Submitted{files: files("rate.py=1", "other=2")}
	if seen[digest("env")] == "" {
		t.Error("a file that no program uses is in it")
	}
	for _, change := range []struct {
		what   string
		change func()
		given  string
	}{
		{"another Python", func() { python = "3.14" }, "env"},
		{"another file", func() { sub = &Submitted{files: files("rate.py=2", "other=2")} }, "env"},
		{"another environment", func() {}, "other env"},
	} {
		change.change()
		d := digest(change.given)
		if before := seen[d]; before != "" {
			t.Errorf("%s has the digest of %s", change.what, before)
		}
		seen[d] = change.what
	}
}
