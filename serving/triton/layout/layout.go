// Package layout lays out models in model repositories as NVIDIA Triton Inference Server wants them: a folder for each model, with its
// description and a folder for each version, of which there is one.
//
// It also describes TensorRT engines as model artifacts: the engine's file, in the artifact's meta data what a server must know of it, and
// beside it, where the engine is only a part of a model, an ONNX model of what comes before it.
package layout

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
)

// ConfigFile describes a model, in its folder.
const ConfigFile = "config.pbtxt"

// Triton's names of what runs a model, and of the model's file.
const (
	platformEngine   = "tensorrt_plan"
	platformONNX     = "onnxruntime_onnx"
	platformEnsemble = "ensemble"

	onnxFile = "model.onnx"
)

// Repository is a model repository: what lies at which path.
type Repository struct {
	// Files of the model's artifact.
	Files map[string]artifact.File
	// Texts are written for Triton.
	Texts map[string][]byte
}

func newRepository() Repository {
	return Repository{Files: map[string]artifact.File{}, Texts: map[string][]byte{}}
}

// ONNX lays out an ONNX model as the model of a name: the one .onnx file under the name that servers look for, and beside it what lies
// beside it or below, such as weights too large for it. It has no description: servers read it from the model.
func ONNX(name string, m artifact.Manifest) (Repository, error) {
	var model artifact.File
	for _, f := range m.Files {
		switch {
		case !strings.HasSuffix(f.Path, ".onnx"):
		case model.Path != "":
			return Repository{}, fmt.Errorf("the model artifact has several .onnx files, %s and %s among them; it must have one", model.Path, f.Path)
		default:
			model = f
		}
	}
	if model.Path == "" {
		return Repository{}, errors.New("the model artifact has no .onnx file")
	}
	r := newRepository()
	folder, below := name+"/1/", strings.TrimPrefix(path.Dir(model.Path)+"/", "./")
	for _, f := range m.Files {
		if rest, ok := strings.CutPrefix(f.Path, below); ok {
			r.Files[folder+rest] = f
		}
	}
	delete(r.Files, folder+path.Base(model.Path))
	r.Files[folder+onnxFile] = model
	return r, nil
}

// ONNXConfig is the description of an ONNX model without its tensors, which Triton reads from the model. maxBatch is the most rows that
// Triton joins into an inference, for a model whose tensors all have an open first dimension; with 0 Triton decides.
func ONNXConfig(name string, maxBatch int) []byte {
	text := fmt.Sprintf("name: %q\nplatform: %q\ndefault_model_filename: %q\n", name, platformONNX, onnxFile)
	if maxBatch > 0 {
		text += fmt.Sprintf("max_batch_size: %d\ndynamic_batching {}\n", maxBatch)
	}
	return []byte(text)
}
