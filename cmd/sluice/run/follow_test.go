package run

import (
	"testing"

	"github.com/sluiceml/sluice/worker"
)

// A target is only said to be served when a release of it is loaded.
func TestSaysServed(t *testing.T) {
	at := map[string]worker.Address{"production": {URL: "http://127.0.0.1:8191"}}
	for name, tt := range map[string]struct {
		targets           map[string]worker.Address
		serving, troubles map[string]string
		want              string
	}{
		"nothing": {},
		"served": {
			at,
			map[string]string{"production": "release 3"},
			nil,
			"release 3 of production is served at http://127.0.0.1:8191 until this process exits; use `sluice up` to keep serving it\n",
		},
		"no release": {at, nil, nil, "production is not served: none of its releases is loaded\n"},
		"a release that cannot be loaded": {
			at, nil,
			map[string]string{"production": "load release 3: ONNX Runtime cannot be used"},
			"production is not served: load release 3: ONNX Runtime cannot be used\n",
		},
		"one that cannot be loaded beside one that serves": {
			at,
			map[string]string{"production": "release 3"},
			map[string]string{"production": "load release 4: no such file"},
			"release 3 of production is served at http://127.0.0.1:8191 until this process exits; use `sluice up` to keep serving it\n" +
				"production is not fully served: load release 4: no such file\n",
		},
		"a gateway that cannot listen": {
			nil, nil, map[string]string{"production": "port 8191 is taken"}, "production is not served: port 8191 is taken\n",
		},
	} {
		if got := saysServed(tt.targets, tt.serving, tt.troubles); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
