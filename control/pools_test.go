package control

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
)

func TestRemoteTrouble(t *testing.T) {
	const far, lent = "temporal.acme:7233", "s3://acme-sluice?region=eu-central-1"
	for _, test := range []struct{ address, store, says string }{
		{far, lent, ""},
		{"10.0.0.7:7233", "gs://acme", ""},
		{"127.0.0.1:7233", lent, "TEMPORAL_ADDRESS"},
		{"[::1]:7233", lent, "TEMPORAL_ADDRESS"},
		{"localhost:7233", lent, "TEMPORAL_ADDRESS"},
		{"0.0.0.0:7233", lent, "TEMPORAL_ADDRESS"},
		{far, "file:///var/lib/sluice", "SLUICE_STORE"},
		{far, "mem://x", "SLUICE_STORE"},
	} {
		got := Unreachable(test.address, test.store)
		if (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("remoteTrouble(%s, %s) = %q, want %q", test.address, test.store, got, test.says)
		}
	}
}

// templates are the findings in the pools of an environment.
func templates(t *testing.T, pools string) string {
	t.Helper()
	file := document.File{Name: "prod.yaml", Source: []byte("sluice: environment/v1\nname: prod\npools: " + pools + "\n")}
	env, bad := environment.LoadFile(file)
	if env == nil {
		t.Fatal(bad)
	}
	return CheckTemplates(file, env).Text(false)
}

func TestCheckTemplates(t *testing.T) {
	for _, tt := range []struct{ pools, says string }{
		{"{laptop: {local: {nodes: 1}}, burst: {kubernetes: {pod: {spec: {nodeSelector: {disk: ssd}}}}}}", ""},
		{"\n  burst: {kubernetes: {pod: {\n    spec: {nodeSelectr: {disk: ssd}}}}}", "prod.yaml:5:25: error[unknown-key]: unknown field \"spec.nodeSelectr\""},
		{"{burst: {kubernetes: {pod: {nodeSelector: {disk: ssd}}}}}", "unknown field \"nodeSelector\""},
		{"{burst: {kubernetes: {pod: {spec: {tolerations: {key: gpu}}}}}}", "error[type]"},
		{"{gpu: {ec2: {region: eu-central-1, types: g6.xlarge, subnets: subnet-a, instance: {Placement: {GroupName: gang}}}}}", ""},
		{"{gpu: {ec2: {region: eu-central-1, types: g6.xlarge, subnets: subnet-a, instance: {Placement: {Group: gang}}}}}", "unknown field \"Placement.Group\""},
	} {
		if got := templates(t, tt.pools); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q, want %q", tt.pools, got, tt.says)
		}
	}
}

// TestCheckPredictors: what is wrong of the predictor of a target is told at its field, all of it.
func TestCheckPredictors(t *testing.T) {
	for _, tt := range []struct {
		predictor string
		says      []string
	}{
		{"{minReplicas: 2, maxReplicas: 8, scaleMetric: cpu, scaleTarget: 70, model: {resources: {limits: {memory: 8Gi}}}}", nil},
		{"\n      minReplicas: 2,\n      minReplica: 3", []string{`prod.yaml:6:19: error[unknown-key]: unknown field "minReplica"`}},
		{"\n      minReplicas: 0", []string{"prod.yaml:5:20: error[type]: minReplicas: 0 pods cannot be"}},
		{"\n      maxReplicas: many", []string{"prod.yaml:5:20: error[type]: maxReplicas: it is of the type string"}},
		{"\n      tolerations: [{key: gpu}, {kei: gpu}]", []string{`prod.yaml:5:39: error[unknown-key]: unknown field "tolerations[1].kei"`}},
		{"\n      tolerations: {key: gpu}", []string{"prod.yaml:5:20: error[type]: tolerations: it is of the type object, but has to be a list"}},
		{"\n      model: {runtime: mine,\n              storageUri: \"s3://mine\"},\n      canaryTrafficPercent: 10", []string{
			"prod.yaml:5:24: error[type]: model.runtime: it cannot be set: use `runtime` of the target",
			"prod.yaml:6:27: error[type]: model.storageUri: it cannot be set",
			"prod.yaml:7:29: error[type]: canaryTrafficPercent: it cannot be set",
		}},
	} {
		source := "sluice: environment/v1\nname: prod\ntargets: {shop: {kserve: {models: \"s3://models\", predictor: PREDICTOR}}}\n"
		if strings.HasPrefix(tt.predictor, "\n") {
			source = "sluice: environment/v1\nname: prod\ntargets:\n  shop: {kserve: {models: \"s3://models\", predictor: {PREDICTOR}}}\n"
		}
		file := document.File{Name: "prod.yaml", Source: []byte(strings.Replace(source, "PREDICTOR", tt.predictor, 1))}
		env, bad := environment.LoadFile(file)
		if env == nil {
			t.Fatal(bad)
		}
		got := CheckTemplates(file, env).Text(false)
		if strings.Count(got, "error[") != len(tt.says) {
			t.Errorf("%s: %s", tt.predictor, got)
		}
		for _, says := range tt.says {
			if !strings.Contains(got, says) {
				t.Errorf("%s: %s, want %q", tt.predictor, got, says)
			}
		}
	}
}

// A file cache without a volume would be silently of no use.
func TestCheckFileCache(t *testing.T) {
	const volume = "pod: {spec: {volumes: [{name: file-cache, emptyDir: {}}]}}"
	for _, tt := range []struct{ pool, says string }{
		{"file_cache: 1GiB", "prod.yaml:3:42: error[required]: the template `pod` has no volume"},
		{"file_cache: 0B", ""},
		{volume, ""},
		{"file_cache: 1GiB, " + volume, ""},
	} {
		if got := templates(t, "{burst: {kubernetes: {"+tt.pool+"}}}"); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q, want %q", tt.pool, got, tt.says)
		}
	}
}
