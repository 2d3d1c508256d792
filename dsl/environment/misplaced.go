package environment

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/spec"
)

// podKeys are keys of the spec of a pod that people look for in a pool.
var podKeys = []string{
	"nodeSelector", "tolerations", "affinity", "volumes", "imagePullSecrets", "priorityClassName", "securityContext", "topologySpreadConstraints", "containers",
	"initContainers", "node_selector", "priority_class",
}

// explainKey says where a key belongs that stands in a mapping whose struct lacks it.
func explainKey(d *decode.Decoder, t reflect.Type, n, key *yaml.Node) string {
	word := key.Value
	switch {
	case t == reflect.TypeFor[spec.Environment]() && decode.HasKey(reflect.TypeFor[spec.Pipeline](), word):
		return "this is a key of the pipeline, which is another file"
	case t == reflect.TypeFor[spec.SecretSource]() && slices.Contains([]string{"value", "literal", "data", "text", "string", "password"}, word):
		return "an environment does not hold the values of secrets: write {env: VARIABLE}, {file: /run/secrets/NAME} or {vault: MOUNT/PATH#KEY}"
	case t == reflect.TypeFor[spec.WorkerLimits]() && decode.HasKey(reflect.TypeFor[spec.PoolLimits](), word):
		return "this is a limit of a pool: `pools: {NAME: {limits: {" + word + ": ...}}}`"
	case t == reflect.TypeFor[spec.EC2Pool]() && (word == spec.CapacitySpot || word == spec.CapacityOnDemand):
		return "write `capacity: " + word + "` beside `ec2`"
	case t == reflect.TypeFor[spec.KubernetesPool]() && slices.Contains(podKeys, word):
		return "write it in the template of the pods: `pod: {spec: {" + word + ": ...}}`"
	}
	return d.OtherLevel(t, n, word, reflect.TypeFor[spec.Pool](), reflect.TypeFor[spec.Target]())
}
