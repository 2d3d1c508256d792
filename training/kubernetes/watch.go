package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training"
)

const (
	// lookEvery is how often pods are looked at that did not change: time passes.
	lookEvery = time.Second
	// watchLimit is how long one watch of the API lasts before the next takes over.
	watchLimit = 4 * time.Minute
	// removeLimit bounds the removal of a gang, killLimit the wait for machines to say that pods have ended. One that does not is taken
	// to be out of reach.
	removeLimit = 2 * time.Minute
	killLimit   = 30 * time.Second
	// overdue is how long a pod may outlive the end of its grace.
	overdue = 10 * time.Second
)

// errLook ends a watch: the pods must be listed again.
var errLook = errors.New("list again")

// follow calls look with the gang's pods by name, whenever they change and every now and then, until it is done or fails.
func (p *Pool) follow(ctx context.Context, g gang, look func(map[string]corev1.Pod) (done bool, err error)) error {
	for range poll.Every(ctx, lookEvery) {
		pods, version, err := p.list(ctx, g)
		if ctx.Err() != nil || training.RefusalOf(err).Lasts() {
			return cmp.Or(ctx.Err(), err)
		}
		if err != nil {
			continue // the API is away for a moment
		}
		for {
			done, err := look(pods)
			if done || err != nil {
				return err
			}
			version, err = p.changes(ctx, g, version, pods, look)
			if errors.Is(err, errLook) {
				break
			} else if err != nil || version == "" {
				return err
			}
		}
	}
	return ctx.Err()
}

// changes watches from a version on, and returns the last one that it saw. An empty one means that look is done.
func (p *Pool) changes(
	ctx context.Context, g gang, version string, pods map[string]corev1.Pod, look func(map[string]corev1.Pod) (bool, error),
) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, watchLimit+callLimit)
	defer cancel()
	changes, err := p.opts.Client.Pods(p.opts.Namespace).Watch(bounded, metav1.ListOptions{
		LabelSelector: selector(g), ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: seconds(watchLimit),
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "", apiError("watch pods", err)
	case err != nil:
		return "", errLook
	}
	defer changes.Stop()
	tick := time.Tick(lookEvery)
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick:
		case e, ok := <-changes.ResultChan():
			if !ok {
				return version, nil // the next watch goes on from here
			}
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Error { // too old, as a rule
				return "", errLook
			}
			version = pod.ResourceVersion
			switch e.Type {
			case watch.Added, watch.Modified:
				pods[pod.Name] = *pod
			case watch.Deleted:
				delete(pods, pod.Name)
			default: // a bookmark
			}
		}
		if done, err := look(pods); done || err != nil {
			return "", err
		}
	}
}

// list returns the gang's pods by name, and the version of the list.
func (p *Pool) list(ctx context.Context, g gang) (map[string]corev1.Pod, string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	all, err := p.opts.Client.Pods(p.opts.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector(g)})
	if err != nil {
		return nil, "", apiError("list pods", err)
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range all.Items {
		pods[pod.Name] = pod
	}
	return pods, all.ResourceVersion, nil
}

func selector(g gang) string { return labelGang + "=" + g.name }

// watch waits for the first loss among the pods that were handed out, and tells of those that are about to be deleted.
func (p *Pool) watch(ctx context.Context, g gang, h handedOut, notice func(training.Notice) error) (training.Loss, error) {
	last := map[string]corev1.Pod{} // as they were last seen
	told := map[int]bool{}          // the nodes that it has told of
	var loss training.Loss
	err := p.follow(ctx, g, func(pods map[string]corev1.Pod) (bool, error) {
		loss.Nodes = g.lost(h, pods, time.Now())
		if len(loss.Nodes) == 0 {
			maps.Copy(last, pods)
			for node := range h.Pods {
				pod := pods[g.podName(node)]
				if told[node] || condition(&pod, corev1.DisruptionTarget) == nil {
					continue
				}
				told[node] = notice(training.Notice{Node: node, Until: usableUntil(&pod), Reason: reasonOf(node, &pod)}) == nil
			}
			return false, nil
		}
		node := loss.Nodes[0]
		name := g.podName(node)
		pod, ok := pods[name]
		if before, seen := last[name]; !ok && seen {
			pod, ok = before, true
		}
		if !ok {
			loss.Reason = fmt.Sprintf("node %d: its pod %s no longer exists", node, name)
			return true, nil
		}
		loss.Reason = reasonOf(node, &pod)
		return true, nil
	})
	return loss, err
}

// lost lists the nodes that are gone. A pod that is being deleted is still there, for as long as its grace lasts.
func (g gang) lost(h handedOut, pods map[string]corev1.Pod, now time.Time) []int {
	var gone []int
	for node, uid := range h.Pods {
		pod, ok := pods[g.podName(node)]
		end := pod.DeletionTimestamp
		if !ok || pod.UID != types.UID(uid) || over(&pod) || end != nil && now.After(end.Add(overdue)) {
			gone = append(gone, node)
		}
	}
	return gone
}

// usableUntil is until when a pod that is the target of a disruption can be used. Whoever makes it the target deletes it next.
func usableUntil(pod *corev1.Pod) time.Time {
	grace := time.Duration(*cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, new(int64))) * time.Second
	killed := time.Now().Add(grace)
	if at := pod.DeletionTimestamp; at != nil {
		killed = at.Time
	}
	return killed.Add(-min(margin, grace/5)) // who drains a machine may give less than the pod asks for
}

// reasonOf is one line on why a pod ended, or is about to.
func reasonOf(node int, pod *corev1.Pod) string {
	what := fmt.Sprintf("node %d: its pod %s ", node, pod.Name)
	where := ""
	if pod.Spec.NodeName != "" {
		where = " on " + pod.Spec.NodeName
	}
	if c := condition(pod, corev1.DisruptionTarget); c != nil {
		return what + "was disrupted" + where + ": " + c.Reason + ": " + oneLine(c.Message)
	}
	if pod.Status.Reason != "" {
		return what + "ended" + where + ": " + pod.Status.Reason + ": " + oneLine(pod.Status.Message)
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if ended := c.State.Terminated; ended != nil && (ended.ExitCode != 0 || c.Name == containerName) {
			return fmt.Sprintf("%sended%s: container %s: %s, exit code %d: %s", what, where, c.Name, ended.Reason, ended.ExitCode, oneLine(ended.Message))
		}
	}
	if over(pod) {
		return what + "ended" + where + ": " + oneLine(pod.Status.Message)
	}
	return what + "was deleted" + where
}

// removePods deletes the gang's pods and waits until none runs: for the machines' word first, and for the API's alone then.
func (p *Pool) removePods(ctx context.Context, g gang) error {
	gone := func(pods map[string]corev1.Pod) (bool, error) {
		for _, pod := range pods {
			if !over(&pod) { // one that has ended may be kept by a finalizer
				return false, nil
			}
		}
		return true, nil
	}
	for _, grace := range []int64{1, 0} {
		if err := p.deletePods(ctx, g, grace); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, killLimit)
		err := p.follow(waiting, g, gone)
		cancel()
		if err == nil {
			return nil
		} else if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the pods of %s cannot be removed from the cluster", g.key)
}

func (p *Pool) deletePods(ctx context.Context, g gang, grace int64) error {
	pods, _, err := p.list(ctx, g)
	if err != nil {
		return err
	}
	for name, pod := range pods {
		if err := unlessGone(p.call(ctx, "delete pod "+name, func(ctx context.Context) error {
			return p.opts.Client.Pods(p.opts.Namespace).Delete(ctx, name, metav1.DeleteOptions{
				GracePeriodSeconds: &grace, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
			})
		})); err != nil {
			return err
		}
	}
	return nil
}

// unlessGone makes nothing of the news that what was to be deleted is gone, or is another by now.
func unlessGone(err error) error {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) || errors.As(err, &status) && status.Status().Code == http.StatusConflict {
		return nil
	}
	return err
}
