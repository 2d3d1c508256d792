package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sluiceml/sluice/internal/proc"
)

// pod is one that a kubelet runs.
type pod struct {
	kubelet *Kubelet
	spec    *corev1.Pod
	life    context.Context // the kubelet's
	ctx     context.Context // ends when nothing of the pod may run any more
	kill    context.CancelCauseFunc

	mu       sync.Mutex
	process  *proc.Process
	stopping bool
}

// live takes the pod from its start to its end. What it cannot do is a failure of the pod, with the reason as its message.
func (p *pod) live() {
	defer p.kill(nil)
	for i, c := range p.spec.Spec.InitContainers {
		state, err := p.run(c, nil)
		if err == nil && state.ExitCode != 0 {
			err = fmt.Errorf("init container %s ended with code %d: %s", c.Name, state.ExitCode, state.Message)
		}
		if err != nil {
			p.report(func(s *corev1.PodStatus) {
				s.Phase, s.Message = corev1.PodFailed, err.Error()
				s.InitContainerStatuses = statuses(p.spec.Spec.InitContainers[:i+1], corev1.ContainerState{Terminated: state})
			})
			p.leave()
			return
		}
	}
	c := p.spec.Spec.Containers[0]
	ended, err := p.run(c, func() {
		p.report(func(s *corev1.PodStatus) {
			s.Phase = corev1.PodRunning
			s.ContainerStatuses = statuses([]corev1.Container{c}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
		})
	})
	p.report(func(s *corev1.PodStatus) {
		s.Phase = corev1.PodFailed
		if err != nil {
			s.Message = err.Error()
		} else if ended.ExitCode == 0 {
			s.Phase = corev1.PodSucceeded
		}
		s.ContainerStatuses = statuses([]corev1.Container{c}, corev1.ContainerState{Terminated: ended})
	})
	p.leave()
}

func statuses(containers []corev1.Container, state corev1.ContainerState) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	return all
}

func (p *pod) report(change func(*corev1.PodStatus)) {
	err := p.kubelet.report(p.spec, func(s *corev1.PodStatus) {
		s.PodIP, s.PodIPs = p.kubelet.address, []corev1.PodIP{{IP: p.kubelet.address}}
		change(s)
	})
	if err != nil && p.ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "kubelet %s: pod %s: %v\n", p.kubelet.Name, p.spec.Name, err)
	}
}

// run runs one container to its end.
func (p *pod) run(c corev1.Container, started func()) (*corev1.ContainerStateTerminated, error) {
	if err := p.pull(c); err != nil {
		return nil, err
	}
	command, said, err := p.command(c)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}, nil
	}
	p.process, err = proc.Start(p.ctx, command)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(p.ctx, p.process.Kill)
	defer stop()
	if started != nil {
		started()
	}
	exit, err := p.process.Wait()
	state := &corev1.ContainerStateTerminated{ExitCode: int32(exit.Code), Reason: "Completed", Message: said.String(), FinishedAt: metav1.Now()}
	if exit.Signal != 0 {
		state.ExitCode = 128 + int32(exit.Signal)
	}
	if state.ExitCode != 0 {
		state.Reason = "Error"
	}
	return state, err
}

// pull waits until the image of a container can be pulled, and says while it cannot what kubelets do.
func (p *pod) pull(c corev1.Container) error {
	report := func(state corev1.ContainerState) {
		p.report(func(s *corev1.PodStatus) { s.InitContainerStatuses = statuses([]corev1.Container{c}, state) })
	}
	why := p.kubelet.unpullable(c.Image)
	if why == "" {
		return nil
	}
	report(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: why}})
	why = fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, why)
	report(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: why}})
	err := wait.PollUntilContextCancel(p.ctx, 100*time.Millisecond, false, func(context.Context) (bool, error) {
		return p.kubelet.unpullable(c.Image) == "", nil
	})
	if err != nil {
		return context.Cause(p.ctx)
	}
	report(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})
	return nil
}

// terminate ends the pod as its deletion asks for: SIGTERM, and after the grace period all at once.
func (p *pod) terminate(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		p.stopping = true
		if p.process == nil {
			p.kill(errDeleted)
		} else {
			_ = p.process.Signal(syscall.SIGTERM) // it may have ended
		}
	}
	time.AfterFunc(grace, func() { p.kill(errDeleted) })
}

var errDeleted = errors.New("the pod is being deleted")

// crash kills the container.
func (p *pod) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.process.Kill()
	}
}

func (p *pod) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil && !ended(p.process)
}

// leave waits until the pod is deleted, and lets it go.
func (p *pod) leave() {
	pods := p.kubelet.cluster.Client.CoreV1().Pods(p.spec.Namespace)
	_ = wait.PollUntilContextCancel(p.life, 100*time.Millisecond, true, func(ctx context.Context) (gone bool, _ error) { // or the kubelet is
		current, err := pods.Get(ctx, p.spec.Name, metav1.GetOptions{})
		if err == nil && current.UID == p.spec.UID && current.DeletionTimestamp != nil { // a failure is tried again
			_ = pods.Delete(ctx, p.spec.Name, metav1.DeleteOptions{
				GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.spec.UID)),
			})
		}
		return apierrors.IsNotFound(err) || err == nil && current.UID != p.spec.UID, nil
	})
}

// command is a container as a process.
func (p *pod) command(c corev1.Container) (proc.Command, *proc.Tail, error) {
	inside, err := p.mounts(c)
	if err != nil {
		return proc.Command{}, nil, err
	}
	env, err := p.environ(c)
	if err != nil {
		return proc.Command{}, nil, err
	}
	argv := slices.Concat(c.Command, c.Args)
	for i := range argv {
		argv[i] = inside(argv[i])
	}
	for i := range env {
		env[i] = inside(env[i])
	}
	dir, err := p.kubelet.folder(p.spec, "root")
	said := proc.NewTail(5)
	log, logErr := os.OpenFile(filepath.Join(dir, c.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = logErr
	}
	env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+dir)
	return proc.Command{Path: argv[0], Args: argv[1:], Env: env, Dir: dir, Stdout: log, Stderr: io.MultiWriter(log, said)}, said, err
}

// mounts returns what puts the folders of a container's volumes in place of the paths that they are mounted at.
func (p *pod) mounts(c corev1.Container) (func(string) string, error) {
	folders := map[string]string{}
	var paths []string
	for _, m := range c.VolumeMounts {
		dir, err := p.volume(m.Name)
		if err != nil {
			return nil, err
		}
		folders[m.MountPath] = dir
		paths = append(paths, regexp.QuoteMeta(m.MountPath))
	}
	path := regexp.MustCompile(`(^|[=:;\s'"])(` + strings.Join(paths, "|") + `)($|[/:;\s'"])`)
	return func(text string) string {
		return path.ReplaceAllStringFunc(text, func(found string) string {
			part := path.FindStringSubmatch(found)
			return part[1] + folders[part[2]] + part[3]
		})
	}, nil
}

// volume is the folder that stands for one of the pod's volumes.
func (p *pod) volume(name string) (string, error) {
	dir, err := p.kubelet.folder(p.spec, name)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(p.spec.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	source := p.spec.Spec.Volumes[i].Secret
	if source == nil {
		return dir, nil
	}
	data, err := p.kubelet.secret(p.ctx, p.spec, source.SecretName)
	if err != nil {
		return "", err
	}
	for _, item := range source.Items {
		if err := os.WriteFile(filepath.Join(dir, item.Path), data[item.Key], 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// environ is a container's environment.
func (p *pod) environ(c corev1.Container) ([]string, error) {
	var env []string
	for _, from := range c.EnvFrom {
		data, err := p.kubelet.secret(p.ctx, p.spec, from.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		for name, value := range data {
			env = append(env, name+"="+string(value))
		}
	}
	known := map[string]string{}
	for _, v := range c.Env {
		value := os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(v.Value), func(name string) string { return known[name] })
		if v.ValueFrom != nil {
			switch {
			case v.ValueFrom.FieldRef != nil:
				value = map[string]string{
					"metadata.uid": string(p.spec.UID), "metadata.name": p.spec.Name, "status.podIP": p.kubelet.address,
				}[v.ValueFrom.FieldRef.FieldPath]
			case v.ValueFrom.SecretKeyRef != nil:
				data, err := p.kubelet.secret(p.ctx, p.spec, v.ValueFrom.SecretKeyRef.Name)
				if err != nil {
					return nil, err
				}
				value = string(data[v.ValueFrom.SecretKeyRef.Key])
			}
		}
		known[v.Name] = value
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}
