package kubernetes

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/training"
)

// nodeOf describes a pod that has a machine as a node of a gang, as far as pods say. A pod costs from when it was given its machine: its
// requests keep others away from then on.
func (g gang) nodeOf(index int, pod *corev1.Pod) training.Node {
	return training.Node{
		Index: index, Name: pod.Name, Queue: g.key.Queue(index, string(pod.UID)), Address: pod.Status.PodIP, Machine: pod.Spec.NodeName,
		BeganAt: scheduledAt(pod), EndedAt: endedAt(pod),
	}
}

func scheduledAt(pod *corev1.Pod) time.Time {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.UTC()
	}
	return pod.CreationTimestamp.UTC()
}

// endedAt is when the last container of a pod ended; zero when it has not, or nobody says.
func endedAt(pod *corev1.Pod) time.Time {
	var last time.Time
	if !over(pod) {
		return last
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := c.State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.UTC()
		}
	}
	return last
}

// describe adds to nodes what their machines' labels say. Who may not read those, or does not find them, goes without.
func (p *Pool) describe(ctx context.Context, nodes []training.Node) {
	labels := map[string]map[string]string{}
	for i := range nodes {
		n := &nodes[i]
		if _, known := labels[n.Machine]; !known {
			labels[n.Machine] = p.machineLabels(ctx, n.Machine)
		}
		n.Type, n.Zone = labels[n.Machine][corev1.LabelInstanceTypeStable], labels[n.Machine][corev1.LabelTopologyZone]
	}
}

func (p *Pool) machineLabels(ctx context.Context, name string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	machine, err := p.opts.Client.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return machine.Labels
}

// paid is what there is of a gang that costs: those of its pods that have a machine.
func (p *Pool) paid(ctx context.Context, g gang) (training.Gang, error) {
	paid := training.Gang{Capacity: g.capacity, USDPerHour: p.opts.Spec.USDPerHour.Of(g.capacity)}
	pods, _, err := p.list(ctx, g)
	if err != nil {
		return paid, err
	}
	for i := range g.nodes {
		if pod, ok := pods[g.podName(i)]; ok && pod.Spec.NodeName != "" {
			paid.Nodes = append(paid.Nodes, g.nodeOf(i, &pod))
		}
	}
	p.describe(ctx, paid.Nodes)
	return paid, nil
}
