package servingtest

import (
	"net/http"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
)

// maxRequest is in bytes.
const maxRequest = 16 << 20

// ReadRequest reads a request of the Open Inference Protocol as a server does.
func ReadRequest(w http.ResponseWriter, r *http.Request) (*oip.InferRequest, error) {
	body, err := oip.ReadBody(w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	return oip.ParseRequest(body, r.Header)
}

// Routes is a server of the Open Inference Protocol with one model.
func Routes(name string, model gateway.Upstream) http.Handler {
	mux := http.NewServeMux()
	at := "/v2/models/" + name
	mux.HandleFunc("GET "+at+"/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
		oip.WriteJSON(w, http.StatusOK, oip.ModelMetadata{
			Name: name, Versions: []string{"1"}, Platform: "onnxruntime_onnx", Inputs: model.Inputs(), Outputs: model.Outputs(),
		})
	})
	mux.HandleFunc("POST "+at+"/infer", func(w http.ResponseWriter, r *http.Request) {
		request, err := ReadRequest(w, r)
		var outputs []oip.Tensor
		if err == nil {
			outputs, err = model.Infer(r.Context(), request.Inputs)
		}
		if err != nil {
			oip.WriteError(w, err)
			return
		}
		answer, err := oip.InferResponse{ModelName: name, ModelVersion: "1", Outputs: outputs}.Encode(request)
		if err != nil {
			oip.WriteError(w, err)
			return
		}
		answer.SetHeader(w.Header())
		_, _ = w.Write(answer.Body)
	})
	return mux
}
