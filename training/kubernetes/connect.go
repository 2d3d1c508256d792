package kubernetes

import (
	"fmt"

	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// Connect makes a client for a pool's cluster, and says in which namespace the pods are. It follows the rules of kubectl: the files that
// KUBECONFIG names, else ~/.kube/config, else, inside a cluster, that cluster.
func Connect(spec spec.KubernetesPool) (_ corev1.CoreV1Interface, namespace string, err error) {
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: spec.Context})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("%w: the kubeconfig: %w", training.ErrInvalid, err)
	}
	if namespace = spec.Namespace; namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, "", fmt.Errorf("%w: the kubeconfig: %w", training.ErrInvalid, err)
		}
	}
	// A gang is a few calls for each node, at once.
	config.QPS, config.Burst, config.UserAgent = 50, 100, "sluice"
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the kubeconfig: %w", training.ErrInvalid, err)
	}
	return client, namespace, nil
}
