package podtemplate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// document reads a template as an environment has it.
func document(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":             {"", ""},
		"a selector":          {"spec: {nodeSelector: {disk: ssd}}", ""},
		"an unknown field":    {"spec: {nodeSelectors: {disk: ssd}}", `unknown field "spec.nodeSelectors"`},
		"another case":        {"spec: {nodeselector: {disk: ssd}}", `unknown field "spec.nodeselector"`},
		"a wrong type":        {"spec: {tolerations: {key: gpu}}", "tolerations"},
		"a wrong quantity":    {"spec: {containers: [{name: ranks, resources: {limits: {rdma/hca: many}}}]}", "quantities"},
		"not in spec":         {"nodeSelector: {disk: ssd}", `unknown field "nodeSelector"`},
		"another container":   {"spec: {containers: [{name: proxy, image: envoy}]}", "initContainers"},
		"an image":            {"spec: {containers: [{name: ranks, image: mine}]}", "`runtime`"},
		"a command":           {"spec: {containers: [{name: ranks, args: [x]}]}", "`command`"},
		"a variable of ours":  {"spec: {containers: [{name: ranks, env: [{name: SLUICE_STORE, value: x}]}]}", "SLUICE_STORE"},
		"a volume of ours":    {"spec: {volumes: [{name: told, emptyDir: {}}]}", "choose another name"},
		"a sidecar":           {"spec: {initContainers: [{name: proxy, image: envoy, restartPolicy: Always}]}", ""},
		"a volume instead":    {"spec: {volumes: [{name: home, hostPath: {path: /nvme}}]}", ""},
		"something of no pod": {"metadata: {labels: {team: ml}}\nkind: Pod", `unknown field "kind"`},
	} {
		_, err := Parse(document(t, tt.text))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func TestMerge(t *testing.T) {
	const template = `
metadata:
  labels: {team: ml, sluice.dev/run: mine}
  annotations: {prometheus.io/scrape: "true"}
spec:
  nodeSelector: {disk: ssd}
  priorityClassName: batch
  restartPolicy: Always
  tolerations: [{key: team, operator: Exists}]
  imagePullSecrets: [{name: registry}]
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}, {matchExpressions: [{key: zone, operator: In, values: [b]}]}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]
  volumes: [{name: home, hostPath: {path: /nvme}}, {name: data, persistentVolumeClaim: {claimName: imagenet}}]
  containers:
    - name: ranks
      env: [{name: NCCL_DEBUG, value: INFO}]
      envFrom: [{configMapRef: {name: team}}]
      volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
      resources: {limits: {vpc.amazonaws.com/efa: 4, memory: 1Gi}}
      securityContext: {capabilities: {add: [IPC_LOCK]}, allowPrivilegeEscalation: true}
`
	parsed, err := Parse(document(t, template))
	if err != nil {
		t.Fatal(err)
	}
	own := pod(t, `
metadata: {name: g-0, labels: {sluice.dev/run: r1}}
spec:
  restartPolicy: Never
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: spot, operator: In, values: [yes]}], matchFields: [{key: metadata.name, operator: NotIn, values: [m1]}]}]
  volumes: [{name: home, emptyDir: {}}, {name: told, secret: {secretName: s}}]
  initContainers: [{name: agent, image: i}]
  containers:
    - name: ranks
      image: i
      command: [agent]
      env: [{name: SLUICE_POD_UID, value: ours}]
      envFrom: [{secretRef: {name: s}}]
      volumeMounts: [{name: home, mountPath: /sluice}]
      resources: {limits: {memory: 8Gi}}
      securityContext: {capabilities: {drop: [ALL]}, allowPrivilegeEscalation: false}
`)
	want := pod(t, `
metadata: {name: g-0, labels: {team: ml, sluice.dev/run: r1}, annotations: {prometheus.io/scrape: "true"}}
spec:
  nodeSelector: {disk: ssd}
  priorityClassName: batch
  restartPolicy: Never
  tolerations: [{key: team, operator: Exists}, {key: nvidia.com/gpu, operator: Exists}]
  imagePullSecrets: [{name: registry}]
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{key: zone, operator: In, values: [a]}, {key: spot, operator: In, values: [yes]}]
            matchFields: [{key: metadata.name, operator: NotIn, values: [m1]}]
          - matchExpressions: [{key: zone, operator: In, values: [b]}, {key: spot, operator: In, values: [yes]}]
            matchFields: [{key: metadata.name, operator: NotIn, values: [m1]}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]
  volumes: [{name: told, secret: {secretName: s}}, {name: home, hostPath: {path: /nvme}}, {name: data, persistentVolumeClaim: {claimName: imagenet}}]
  initContainers: [{name: agent, image: i}]
  containers:
    - name: ranks
      image: i
      command: [agent]
      env: [{name: SLUICE_POD_UID, value: ours}, {name: NCCL_DEBUG, value: INFO}]
      envFrom: [{configMapRef: {name: team}}, {secretRef: {name: s}}]
      volumeMounts: [{name: home, mountPath: /sluice}, {name: data, mountPath: /data, readOnly: true}]
      resources: {limits: {vpc.amazonaws.com/efa: 4, memory: 8Gi}}
      securityContext: {capabilities: {add: [IPC_LOCK], drop: [ALL]}, allowPrivilegeEscalation: false}
`)
	got, err := Merge(parsed, own)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}

	same, err := Merge(corev1.PodTemplateSpec{}, own)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, same); diff != "" {
		t.Errorf("without a template (-want +got):\n%s", diff)
	}
}

func pod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(document(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var p corev1.Pod
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}
