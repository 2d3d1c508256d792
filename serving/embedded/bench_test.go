package embedded

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// BenchmarkInfer is one client that asks for a row of a small model, over REST, again and again: what a gateway costs.
func BenchmarkInfer(b *testing.B) {
	s := servingtest.NewStore(b)
	server := serve(b, s, gateway.Ports{})
	defer servingtest.Stop(b, server)
	release(b, s, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL()), onnxtest.MLP)
	row := oip.Tensor{Name: "x", Shape: []int64{1, 16}, Data: make([]float32, 16)}
	for i := range 16 {
		row.Data.([]float32)[i] = float32(i) / 97
	}
	body, err := json.Marshal(oip.InferRequest{Inputs: []oip.Tensor{row}})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		res, err := client.Post(server.URL()+"/v2/models/"+servingtest.Name+"/infer", "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatalf("%s %s: %v", res.Status, answer, err)
		}
	}
}
