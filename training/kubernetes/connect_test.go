package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

func TestConnect(t *testing.T) {
	c := cluster(t)
	namespace := c.Namespace(t)
	c.Allow(t, worker, namespace, role)
	path, err := c.Kubeconfig(worker, namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	for _, spec := range []spec.KubernetesPool{{}, {Context: "kubetest"}, {Context: "kubetest", Namespace: namespace}} {
		client, in, err := Connect(spec)
		if err != nil || in != namespace {
			t.Fatalf("Connect(%+v): namespace %q, %v, want %q", spec, in, err, namespace)
		}
		if _, err := client.Pods(in).List(bounded(t), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := Connect(spec.KubernetesPool{Context: "gpu"}); !errors.Is(err, training.ErrInvalid) || !strings.Contains(err.Error(), "gpu") {
		t.Errorf("a context that is not there: %v, want ErrInvalid that names it", err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	if _, inside := os.LookupEnv("KUBERNETES_SERVICE_HOST"); inside {
		return
	}
	if _, _, err := Connect(spec.KubernetesPool{}); !errors.Is(err, training.ErrInvalid) {
		t.Errorf("no kubeconfig: %v, want ErrInvalid", err)
	}
}
