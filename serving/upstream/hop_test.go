package upstream

import (
	"net/http"
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// BenchmarkHop compares a model in this process with the same model behind a server.
func BenchmarkHop(b *testing.B) {
	file, err := onnx.ModelFile(onnxtest.Folder(b, onnxtest.MLP))
	if err != nil {
		b.Fatal(err)
	}
	session, err := onnx.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	inputs := []oip.Tensor{{Name: session.Inputs()[0].Name, Shape: []int64{1, 16}, Data: make([]float32, 16)}}
	s := serve(b, func(w http.ResponseWriter, r *http.Request) {
		request, err := servingtest.ReadRequest(w, r)
		if err != nil {
			b.Error(err)
			return
		}
		outputs, err := session.Infer(r.Context(), request.Inputs)
		if err != nil {
			b.Error(err)
		}
		oip.WriteJSON(w, http.StatusOK, oip.InferResponse{ModelName: "m", Outputs: outputs})
	})
	s.metadata = `{"name":"m","inputs":[],"outputs":[]}`
	m := openServed(b, s)
	b.Run("in process", func(b *testing.B) {
		for b.Loop() {
			if _, err := session.Infer(b.Context(), inputs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("behind a server", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.Infer(b.Context(), inputs); err != nil {
				b.Fatal(err)
			}
		}
	})
}
