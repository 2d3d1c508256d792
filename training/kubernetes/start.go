package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/training"
)

// start creates what is missing of a gang and waits until all of its agents run. The error is a *waitError where machines are missing.
func (p *Pool) start(ctx context.Context, g gang, r training.Request) (training.Gang, error) {
	if h, known, err := p.started(ctx, g); known || err != nil {
		return h.Gang, err
	}
	if err := p.put(ctx, g, r); err != nil {
		return training.Gang{}, err
	}
	s := &starting{pool: p, gang: g, since: time.Now()}
	var running []corev1.Pod
	err := p.follow(ctx, g, func(pods map[string]corev1.Pod) (done bool, err error) {
		running, err = s.look(pods, time.Now())
		return len(running) == g.nodes, err
	})
	if err != nil {
		return training.Gang{}, err
	}
	var h handedOut
	for i, pod := range running {
		h.Nodes = append(h.Nodes, g.nodeOf(i, &pod))
		h.Pods = append(h.Pods, string(pod.UID))
	}
	p.describe(ctx, h.Nodes)
	h.Capacity, h.USDPerHour = r.Capacity, p.opts.Spec.USDPerHour.Of(r.Capacity)
	h, err = p.handOut(ctx, g, h)
	return h.Gang, err
}

// starting is a gang while it starts.
type starting struct {
	pool    *Pool
	gang    gang
	since   time.Time
	noImage time.Time        // since when an image cannot be pulled
	image   training.Refusal // what that means; once it is for good, kubelets say only that they wait
}

// look returns the pods that run, in order, or why they never will, or not in time.
func (s *starting) look(pods map[string]corev1.Pod, now time.Time) (running []corev1.Pod, err error) {
	wait, imageError := waitError{}, ""
	for node := range s.gang.nodes {
		pod, ok := pods[s.gang.podName(node)]
		if !ok {
			return nil, fmt.Errorf("node %d: its pod was deleted before it ran: %w", node, training.ErrNoCapacity)
		}
		if over(&pod) {
			return nil, failedStart(node, &pod)
		}
		if why, fatal := imageTrouble(&pod); fatal {
			return nil, fmt.Errorf("node %d: %s: %w", node, why, training.ErrInvalid)
		} else if why != "" {
			imageError = fmt.Sprintf("node %d: %s", node, why)
		}
		switch {
		case runs(&pod):
			running = append(running, pod)
			wait.placed++
		case pod.Spec.NodeName != "":
			wait.placed++
		case len(pod.Spec.SchedulingGates) > 0:
			wait.queued = true
			wait.why = fmt.Sprintf("queue %s has not admitted the gang", pod.Labels[kueueQueue])
		default:
			wait.why = unscheduled(node, &pod)
		}
	}
	switch {
	case imageError == "":
		s.noImage, s.image = time.Time{}, ""
	case s.noImage.IsZero():
		s.noImage = now
	}
	if imageError != "" && !s.image.Lasts() {
		s.image = training.ImageRefusal(imageError)
	}
	switch {
	case imageError != "" && now.Sub(s.noImage) >= s.pool.imagePatience:
		return nil, fmt.Errorf("%s: %w", imageError, s.image)
	case wait.why != "" && now.Sub(s.since) >= s.pool.patience:
		return nil, &wait
	}
	return running, nil
}

// unscheduled says why a pod has no machine yet.
func unscheduled(node int, pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Message != "" {
		return fmt.Sprintf("node %d: %s", node, oneLine(c.Message))
	}
	return fmt.Sprintf("node %d has no machine yet", node)
}

// failedStart says of a pod that ended before its gang was whole whether that was the machine's doing.
func failedStart(node int, pod *corev1.Pod) error {
	err := errors.New(reasonOf(node, pod))
	if condition(pod, corev1.DisruptionTarget) != nil || pod.Status.Reason != "" { // evicted, preempted, shut down, refused by the machine
		return fmt.Errorf("%w: %w", err, training.ErrNoCapacity)
	}
	return fmt.Errorf("%w: %w", err, training.ErrNotStarted)
}

// imageTrouble says why a container cannot be made of its image, and whether that is for good.
func imageTrouble(pod *corev1.Pod) (why string, fatal bool) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting == nil {
			continue
		}
		why = fmt.Sprintf("image %s: %s: %s", c.Image, c.State.Waiting.Reason, oneLine(c.State.Waiting.Message))
		switch c.State.Waiting.Reason {
		case "InvalidImageName", "ErrImageNeverPull":
			return why, true
		case "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError":
			return why, false
		}
	}
	return "", false
}

// runs reports whether a pod's agent does.
func runs(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == containerName && c.State.Running != nil
	})
}

// over reports whether nothing of a pod runs any more, or will.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind && (c.Status == corev1.ConditionTrue || kind == corev1.PodScheduled) {
			return c
		}
	}
	return nil
}

// oneLine is a text of the cluster's in one line, and not too long.
func oneLine(text string) string {
	const most = 400
	line := strings.Join(strings.Fields(text), " ")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "..."
	}
	return line
}

// replace reports whether another gang may take a gang's place: it was handed out and none of its nodes is left, or it still waits and
// is not what is wanted now.
func (p *Pool) replace(ctx context.Context, g gang, r training.Request) (bool, error) {
	h, known, err := p.started(ctx, g)
	if err != nil {
		return false, err
	}
	if !known {
		return g.capacity != r.Capacity, nil
	}
	pods, _, err := p.list(ctx, g)
	if err != nil {
		return false, err
	}
	return len(g.lost(h, pods, time.Now())) == len(h.Pods), nil
}

// remove deletes a gang, its pods first and its claim last, and returns when none of its pods runs. Called again it goes on. It returns those
// that had a machine.
func (p *Pool) remove(ctx context.Context, g gang) (training.Gang, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	paid, err := p.paid(ctx, g)
	if err != nil {
		return paid, err
	}
	if err := p.removePods(ctx, g); err != nil {
		return paid, err
	}
	for i, now := range paid.Nodes {
		if now.EndedAt.IsZero() {
			paid.Nodes[i].EndedAt = time.Now().UTC()
		}
	}
	return paid, p.removeRecords(ctx, g)
}

// removeRecords deletes what is left of a gang that has no pods.
func (p *Pool) removeRecords(ctx context.Context, g gang) error {
	for _, c := range []struct {
		what string
		call func(context.Context, string, metav1.DeleteOptions) error
		name string
	}{
		{"delete the agents' Secret", p.opts.Client.Secrets(p.opts.Namespace).Delete, g.incarnation()},
		{"delete the gang's record", p.opts.Client.ConfigMaps(p.opts.Namespace).Delete, g.incarnation()},
		{"delete the gang's claim", p.opts.Client.ConfigMaps(p.opts.Namespace).Delete, g.name},
	} {
		options := metav1.DeleteOptions{}
		if c.name == g.name { // not another's of the same name
			options.Preconditions = metav1.NewUIDPreconditions(string(g.uid))
		}
		if err := unlessGone(p.call(ctx, c.what, func(ctx context.Context) error { return c.call(ctx, c.name, options) })); err != nil {
			return err
		}
	}
	return nil
}
