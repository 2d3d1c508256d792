package kserve

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluiceml/sluice/dsl/spec"
)

// callTimeout bounds one question to the API server.
const callTimeout = 20 * time.Second

// resource is KServe's; its Go module is not needed for the few fields that matter here.
var resource = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}

// configOf reads how to reach the cluster; inside means that this process is a pod of it.
func configOf(spec spec.KServeTarget) (config *rest.Config, namespace string, inside bool, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: spec.Context})
	if config, err = loader.ClientConfig(); err != nil {
		return nil, "", false, fmt.Errorf("how to reach the Kubernetes cluster: %w", err)
	}
	namespace = spec.Namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", false, fmt.Errorf("the namespace of context %q: %w", spec.Context, err)
		}
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", false, fmt.Errorf("the kubeconfig: %w", err)
	}
	return config, namespace, len(raw.Contexts) == 0, nil
}

// cluster is the namespace of the InferenceServices. Its errors are notYet when asking again may help.
type cluster struct {
	namespace string
	services  dynamic.ResourceInterface
	core      kubernetes.Interface
}

func newCluster(config *rest.Config, namespace string) (*cluster, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "sluice")
	config.Timeout = callTimeout
	services, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes cluster: %w", err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes cluster: %w", err)
	}
	return &cluster{namespace: namespace, services: services.Resource(resource).Namespace(namespace), core: core}, nil
}

// get returns an InferenceService, nil when there is none.
func (c *cluster) get(ctx context.Context, name string) (*service, error) {
	object, err := c.services.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return serviceOf(object)
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		return nil, nil
	}
	return nil, c.explain(err)
}

// create makes an InferenceService, or returns the one that another gateway has made meanwhile. With dryRun the cluster only says whether
// it would. A field that its KServe does not know is an error: it would be dropped without a word.
func (c *cluster) create(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) (*service, error) {
	made, err := c.services.Create(ctx, object, metav1.CreateOptions{
		FieldManager: "sluice", FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
	})
	switch {
	case err == nil:
		return serviceOf(made)
	case apierrors.IsAlreadyExists(err):
		return nil, &notYet{fmt.Sprintf("InferenceService %s was not created by Sluice", object.GetName())}
	}
	return nil, c.explain(err)
}

func (c *cluster) remove(ctx context.Context, name string) error {
	if err := c.services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return c.explain(err)
	}
	return nil
}

// list returns the InferenceServices of a target, made from a store.
func (c *cluster) list(ctx context.Context, owner, target string) ([]*service, error) {
	selector := labels.Set{labelStore: owner, labelTarget: targetName(target)}.String()
	found, err := c.services.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.explain(err)
	}
	all := make([]*service, len(found.Items))
	for i := range found.Items {
		if all[i], err = serviceOf(&found.Items[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// pods are those of an InferenceService.
type pods struct {
	bad     string // what is wrong with one
	pending string // what one waits for
	ready   int
	hidden  bool // they may not be looked at
}

func (c *cluster) pods(ctx context.Context, name string) (pods, error) {
	found, err := c.core.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: podLabel + "=" + name})
	if apierrors.IsForbidden(err) {
		return pods{hidden: true}, nil
	}
	if err != nil {
		return pods{}, c.explain(err)
	}
	var all pods
	for i := range found.Items {
		bad, pending := podTrouble(&found.Items[i])
		all.bad, all.pending = cmp.Or(all.bad, bad), cmp.Or(pending, all.pending)
		if slices.ContainsFunc(found.Items[i].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			all.ready++
		}
	}
	return all, nil
}

// lacksPermission is how the cluster's authorizer speaks, unlike quotas, policies and webhooks, whose refusals are forbidden too.
var lacksPermission = regexp.MustCompile(`cannot \w+ resource "`)

// explain makes an error of the API server one for the user.
func (c *cluster) explain(err error) error {
	switch {
	case apierrors.IsForbidden(err) && lacksPermission.MatchString(err.Error()):
		return fmt.Errorf("the cluster rejected it: %w; docs/kserve.md has the role that Sluice needs in namespace %s", err, c.namespace)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the kubeconfig's credentials: %w", err)
	case apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("the cluster has no InferenceServices: %w; is KServe installed?", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %s: %w", c.namespace, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return fmt.Errorf("the cluster rejected the InferenceService: %w; nothing was created; the environment says in `predictor`, `runtime` "+
			"and `service_account` of the target what is in it", err)
	}
	return &notYet{fmt.Sprintf("the Kubernetes API request failed: %v", err)}
}

// podTrouble says what keeps a pod from starting, and else what it waits for.
func podTrouble(p *corev1.Pod) (bad, pending string) {
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if w := s.State.Waiting; w != nil && stuck[w.Reason] {
			why := fmt.Sprintf("pod %s: container %s: %s: %s", p.Name, s.Name, w.Reason, w.Message)
			if last := s.LastTerminationState.Terminated; last != nil {
				why += fmt.Sprintf("; it exited with code %d: %s", last.ExitCode, last.Message)
			}
			return why, ""
		}
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "", fmt.Sprintf("pod %s has no node: %s", p.Name, condition.Message)
		}
	}
	if p.Status.Phase == corev1.PodPending {
		return "", fmt.Sprintf("pod %s is starting", p.Name)
	}
	return "", ""
}

// stuck are the reasons for which kubelets keep a container waiting that do not pass by themselves.
var stuck = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true, "RegistryUnavailable": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true, "CrashLoopBackOff": true,
}
