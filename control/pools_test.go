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
