package predictor

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Version is that of KServe whose words are known here.
const Version = "0.20"

// spec is KServe's PredictorSpec, but for what a release cannot have. It is not taken from KServe's Go module, which needs those of Knative,
// Istio, Ray and two hundred others. A test compares it with KServe's CustomResourceDefinition.
type spec struct {
	corev1.PodSpec       `json:",inline"`
	Model                model                      `json:"model"`
	StorageContainerName *string                    `json:"storageContainerName"`
	MinReplicas          *int32                     `json:"minReplicas"`
	MaxReplicas          int32                      `json:"maxReplicas"`
	ScaleTarget          *int32                     `json:"scaleTarget"`
	ScaleMetric          string                     `json:"scaleMetric"`
	ScaleMetricType      string                     `json:"scaleMetricType"`
	AutoScaling          *autoScaling               `json:"autoScaling"`
	ContainerConcurrency *int64                     `json:"containerConcurrency"`
	Timeout              *int64                     `json:"timeout"`
	Labels               map[string]string          `json:"labels"`
	Annotations          map[string]string          `json:"annotations"`
	DeploymentStrategy   *appsv1.DeploymentStrategy `json:"deploymentStrategy"`
	Batcher              *batcher                   `json:"batcher"`
	Logger               *logger                    `json:"logger"`
}

type model struct {
	corev1.Container `json:",inline"`
	RuntimeVersion   string        `json:"runtimeVersion"`
	Confidential     *confidential `json:"confidential"`
}

type confidential struct {
	Enabled    bool   `json:"enabled"`
	ResourceID string `json:"resourceId"`
}

type autoScaling struct {
	Metrics []struct {
		Type     string `json:"type"`
		Resource *struct {
			Name   string       `json:"name"`
			Target metricTarget `json:"target"`
		} `json:"resource"`
		External *struct {
			Metric struct {
				Backend       string `json:"backend"`
				ServerAddress string `json:"serverAddress"`
				Query         string `json:"query"`
				Namespace     string `json:"namespace"`
			} `json:"metric"`
			AuthenticationRef *struct {
				AuthenticationRef corev1.LocalObjectReference `json:"authenticationRef"`
				AuthModes         string                      `json:"authModes"`
			} `json:"authenticationRef"`
			Target metricTarget `json:"target"`
		} `json:"external"`
		PodMetric *struct {
			Metric struct {
				Backend           string   `json:"backend"`
				ServerAddress     string   `json:"serverAddress"`
				MetricNames       []string `json:"metricNames"`
				Query             string   `json:"query"`
				OperationOverTime string   `json:"operationOverTime"`
			} `json:"metric"`
			Target metricTarget `json:"target"`
		} `json:"podmetric"`
	} `json:"metrics"`
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
}

type metricTarget struct {
	Type               string             `json:"type"`
	Value              *resource.Quantity `json:"value"`
	AverageValue       *resource.Quantity `json:"averageValue"`
	AverageUtilization *int32             `json:"averageUtilization"`
}

type batcher struct {
	MaxBatchSize *int `json:"maxBatchSize"`
	MaxLatency   *int `json:"maxLatency"`
	Timeout      *int `json:"timeout"`
}

type logger struct {
	URL                 string   `json:"url"`
	Mode                string   `json:"mode"`
	MetadataHeaders     []string `json:"metadataHeaders"`
	MetadataAnnotations []string `json:"metadataAnnotations"`
	MarshallerURL       string   `json:"marshallerUrl"`
	BatchSize           *int     `json:"batchSize"`
	BatchInterval       string   `json:"batchInterval"`
	Storage             *struct {
		Key                string            `json:"key"`
		Path               string            `json:"path"`
		Parameters         map[string]string `json:"parameters"`
		ServiceAccountName string            `json:"serviceAccountName"`
	} `json:"storage"`
}
