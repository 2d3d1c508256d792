package control

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// promise: docs/kubernetes.md#p-pods-reach
// promise: docs/ec2.md#p-instances-reach
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

// promise: docs/kubernetes.md#p-pod-checked
func TestCheckTemplates(t *testing.T) {
	env := func(pod map[string]any) *spec.Environment {
		return &spec.Environment{Pools: map[string]spec.Pool{"laptop": {Local: &spec.LocalPool{}}, "burst": {Kubernetes: &spec.KubernetesPool{Pod: pod}}}}
	}
	if err := checkTemplates("prod.yaml", env(map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}}})); err != nil {
		t.Error(err)
	}
	err := checkTemplates("prod.yaml", env(map[string]any{"spec": map[string]any{"nodeSelectr": map[string]any{"disk": "ssd"}}}))
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), `prod.yaml: pools.burst.kubernetes.pod: unknown field "spec.nodeSelectr"`) {
		t.Errorf("%v, want the file, the pool and the field", err)
	}
}

// A file cache without a volume would be silently of no use.
//
// promise: docs/kubernetes.md#p-pod-file-cache
func TestCheckFileCache(t *testing.T) {
	size, none := spec.Size(1<<30), spec.Size(0)
	volume := map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"name": "file-cache", "emptyDir": map[string]any{}}}}}
	for _, tt := range []struct {
		pool spec.KubernetesPool
		says string
	}{
		{spec.KubernetesPool{FileCache: &size}, "prod.yaml: pools.burst.kubernetes.file_cache: the template `pod` has no volume"},
		{spec.KubernetesPool{FileCache: &none}, ""},
		{spec.KubernetesPool{Pod: volume}, ""},
		{spec.KubernetesPool{Pod: volume, FileCache: &size}, ""},
	} {
		err := checkTemplates("prod.yaml", &spec.Environment{Pools: map[string]spec.Pool{"burst": {Kubernetes: &tt.pool}}})
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(fault.Message(err), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.pool, err, tt.says)
		}
	}
}

// promise: docs/ec2.md#p-instance-checked
func TestCheckInstances(t *testing.T) {
	env := func(instance map[string]any) *spec.Environment {
		return &spec.Environment{Pools: map[string]spec.Pool{"gpu": {EC2: &spec.EC2Pool{Instance: instance}}}}
	}
	if err := checkTemplates("prod.yaml", env(map[string]any{"Placement": map[string]any{"GroupName": "gang"}})); err != nil {
		t.Error(err)
	}
	err := checkTemplates("prod.yaml", env(map[string]any{"Placement": map[string]any{"Group": "gang"}}))
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), `prod.yaml: pools.gpu.ec2.instance: unknown field "Placement.Group"`) {
		t.Errorf("%v, want the file, the pool and the field", err)
	}
}
