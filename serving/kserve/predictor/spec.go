package predictor

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Version is that of KServe whose words are known here.
const Version = "0.20"

// spec is KServe's PredictorSpec, but for what a release cannot have, and for what is in some fields, which the cluster checks. It is not
// taken from KServe's Go module, which needs those of Knative, Istio, Ray and many others. A test compares it with KServe's
// CustomResourceDefinition.
type spec struct {
	corev1.PodSpec `json:",inline"`
	Model          struct {
		corev1.Container `json:",inline"`
		RuntimeVersion   string         `json:"runtimeVersion"`
		Confidential     map[string]any `json:"confidential"`
	} `json:"model"`
	StorageContainerName string                     `json:"storageContainerName"`
	MinReplicas          *int32                     `json:"minReplicas"`
	MaxReplicas          int32                      `json:"maxReplicas"`
	ScaleTarget          int32                      `json:"scaleTarget"`
	ScaleMetric          string                     `json:"scaleMetric"`
	ScaleMetricType      string                     `json:"scaleMetricType"`
	AutoScaling          map[string]any             `json:"autoScaling"`
	ContainerConcurrency int64                      `json:"containerConcurrency"`
	Timeout              int64                      `json:"timeout"`
	Labels               map[string]string          `json:"labels"`
	Annotations          map[string]string          `json:"annotations"`
	DeploymentStrategy   *appsv1.DeploymentStrategy `json:"deploymentStrategy"`
	Batcher              map[string]any             `json:"batcher"`
	Logger               map[string]any             `json:"logger"`
}
