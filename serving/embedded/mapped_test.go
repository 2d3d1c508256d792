package embedded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// TestWeightsAreMapped: a model with external data is published, fetched and loaded. Its weights are in memory as pages of their file, and only
// those that an inference has needed.
func TestWeightsAreMapped(t *testing.T) {
	s := servingtest.NewStore(t)
	server := serve(t, s, gateway.Ports{})
	defer servingtest.Stop(t, server)
	dir := onnxtest.Folder(t, onnxtest.Table)
	onnxtest.WriteTable(t, dir)
	releaseFolder(t, s, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL()), dir, "table")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) { // more than there are instances
		group.Go(func() {
			const body = `{"inputs": [{"name": "ids", "shape": [1], "datatype": "INT64", "data": [7]}]}`
			res, err := client.Post(server.URL()+"/v2/models/"+servingtest.Name+"/infer", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var answer oip.InferResponse
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(answer.Outputs) != 1 || answer.Outputs[0].Data.([]float32)[2] != 3 {
				t.Errorf("%s: %v, %v", res.Status, answer, err)
			}
		})
	}
	group.Wait()
	if m := mapped(t, "model.onnx.data"); m.size != onnxtest.TableBytes || m.resident == 0 || m.resident > m.size/4 || m.changed != 0 {
		t.Errorf("of %d bytes, %+v are in memory: want them mapped once, few of them resident, none changed", onnxtest.TableBytes, m)
	}
}

// mapping is what of a file is in memory.
type mapping struct{ size, resident, changed int64 }

// mapped adds up the mappings of files whose path contains name, in bytes.
func mapped(t *testing.T, name string) (m mapping) {
	t.Helper()
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		key, value, _ := strings.Cut(line, ":")
		var kib int64
		switch {
		case strings.Contains(key, "-") && !strings.HasSuffix(strings.Fields(line)[0], ":"):
			in = strings.Contains(line, name)
			continue
		case !in:
			continue
		}
		if _, err := fmt.Sscan(value, &kib); err != nil {
			continue
		}
		switch key {
		case "Size":
			m.size += kib << 10
		case "Rss":
			m.resident += kib << 10
		case "Anonymous": // copied by a change; pages that are not yet on disk are dirty as well
			m.changed += kib << 10
		}
	}
	return m
}
