package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/kubernetes/podtemplate"
)

const (
	// grace is how long a pod that is evicted lives on: as long as EC2 gives. Where the machine goes sooner, it is shorter.
	grace = 2 * time.Minute
	// margin of the grace is the agent's, to end.
	margin = 10 * time.Second
	// idleLimit ends agents that nobody needs: whoever would release them may be gone.
	idleLimit = 15 * time.Minute
	// lent is how long the agent's executable can be fetched: gangs queue.
	lent = 12 * time.Hour

	// home is the folder of the agent and all that it does; told has what the agent reads from files.
	home = "/sluice"
	told = "/etc/sluice"
	// cache is where the template's volume for the file cache is mounted.
	cache = "/var/cache/sluice"

	containerName = podtemplate.Container
	gpuResource   = "nvidia.com/gpu"
)

// The Secret's keys beside the agent's environment.
const (
	secretAgentURL  = "SLUICE_AGENT_URL"
	secretAgentSum  = "SLUICE_AGENT_SHA256"
	secretCodecKeys = "codec-keys" // no name of a variable, so that no variable is made of it
)

// fetchAgent fetches the agent with whatever the image has for that, and believes it by its digest only.
const fetchAgent = `set -eu
agent=` + home + `/bin/sluice-agent
mkdir -p ` + home + `/bin
if command -v curl >/dev/null; then curl -fsSL --retry 5 --connect-timeout 10 -o "$agent.part" "$` + secretAgentURL + `"
elif command -v python3 >/dev/null; then python3 -c 'import os, sys, urllib.request
urllib.request.urlretrieve(os.environ["` + secretAgentURL + `"], sys.argv[1])' "$agent.part"
elif command -v wget >/dev/null; then wget -q -O "$agent.part" "$` + secretAgentURL + `"
else echo "the image has neither curl nor python3 nor wget to fetch the agent" >&2; exit 1; fi
echo "$` + secretAgentSum + `  $agent.part" | sha256sum -c - >/dev/null
chmod 755 "$agent.part"
mv "$agent.part" "$agent"
`

// secretOf is what the gang's agents are told. Their own queues and addresses are no secrets, and differ.
func (p *Pool) secretOf(g gang, r training.Request, template corev1.PodTemplateSpec, agent delivery.Item) (*corev1.Secret, error) {
	config := p.opts.Agent
	config.Token = p.opts.Token(r.QueuePrefix(), r.Workflow)
	config.Dir, config.LogDir = home+"/node", home+"/logs"
	config.Idle, config.Grace = idleLimit, grace-margin
	if limit := spec.FileCacheOf(p.opts.Spec.Kubernetes.FileCache, podtemplate.HasFileCache(template)); limit > 0 {
		config.Cache, config.CacheLimit = cache, limit
	}
	secret := &corev1.Secret{ObjectMeta: p.owned(g, g.incarnation()), StringData: map[string]string{
		secretAgentURL: agent.URL, secretAgentSum: agent.SHA256,
	}, Data: map[string][]byte{}}
	if keys := config.CodecKeys; keys != "" {
		raw, err := os.ReadFile(keys)
		if err != nil {
			return nil, fmt.Errorf("keys of payloads: %w", err)
		}
		secret.Data[secretCodecKeys] = raw
		config.CodecKeys = told + "/" + secretCodecKeys
	}
	environ, err := p.opts.Environ(config)
	if err != nil {
		return nil, err
	}
	maps.Copy(secret.StringData, p.variables(environ))
	return secret, nil
}

// podOf is one node of a gang.
func (p *Pool) podOf(g gang, r training.Request, template corev1.PodTemplateSpec, node int) (*corev1.Pod, error) {
	meta := p.owned(g, g.podName(node))
	meta.Labels[labelNode] = strconv.Itoa(node)
	image := cmp.Or(r.Image, p.opts.Spec.Runtime.Image)
	secret := corev1.LocalObjectReference{Name: g.incarnation()}
	own := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(bool),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	mounts := []corev1.VolumeMount{{Name: "home", MountPath: home}}
	volumes := []corev1.Volume{{Name: "home", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	if p.opts.Agent.CodecKeys != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: podtemplate.Private, MountPath: told, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: podtemplate.Private, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: g.incarnation(), Items: []corev1.KeyToPath{{Key: secretCodecKeys, Path: secretCodecKeys}},
		}}})
	}
	init := corev1.Container{
		Name: "agent", Image: image, Command: []string{"sh", "-c", fetchAgent}, VolumeMounts: mounts, SecurityContext: own,
		Env: []corev1.EnvVar{fromSecret(secret, secretAgentURL), fromSecret(secret, secretAgentSum)},
	}
	if podtemplate.HasFileCache(template) {
		mounts = append(mounts, corev1.VolumeMount{Name: podtemplate.FileCache, MountPath: cache})
	}
	if size := r.Resources.SHM; size > 0 {
		mounts = append(mounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
		volumes = append(volumes, corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(int64(size), resource.BinarySI),
		}}})
	}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: seconds(grace),
		ServiceAccountName:            p.opts.Spec.Kubernetes.ServiceAccount,
		AutomountServiceAccountToken:  new(bool),
		EnableServiceLinks:            new(bool),
		Affinity:                      p.affinity(r),
		Tolerations:                   tolerations(r),
		InitContainers:                []corev1.Container{init},
		Containers: []corev1.Container{{
			Name: containerName, Image: image, Command: []string{home + "/bin/sluice-agent"},
			EnvFrom:   []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret}}},
			Env:       p.ownVariables(r, node),
			Resources: resourcesOf(r), VolumeMounts: mounts, SecurityContext: own,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: volumes,
	}}
	p.enqueue(g, pod)
	return podtemplate.Merge(template, pod)
}

// ownVariables are those that differ from node to node. The pod's identity makes a queue that no other pod ever polled.
func (p *Pool) ownVariables(r training.Request, node int) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	cpus := corev1.EnvVar{Name: agentCPUs, ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: containerName, Resource: "limits.cpu"}, // the machine's without a limit
	}}
	if r.Resources.CPU > 0 {
		cpus = corev1.EnvVar{Name: agentCPUs, Value: strconv.Itoa(int(math.Ceil(r.Resources.CPU)))}
	}
	return []corev1.EnvVar{
		field("SLUICE_POD_UID", "metadata.uid"),
		{Name: agentQueue, Value: r.Queue(node, "$(SLUICE_POD_UID)")},
		field(agentHost, "status.podIP"),
		cpus,
	}
}

// resourcesOf is what a pod asks for. Memory is bounded too, so that a rank which takes more ends and not its neighbours.
func resourcesOf(r training.Request) corev1.ResourceRequirements {
	wants := r.Resources
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if wants.CPU > 0 {
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Ceil(1000*wants.CPU)), resource.DecimalSI)
	}
	if wants.Memory > 0 {
		size := *resource.NewQuantity(int64(wants.Memory), resource.BinarySI)
		requests[corev1.ResourceMemory], limits[corev1.ResourceMemory] = size, size
	}
	if wants.GPU > 0 {
		count := *resource.NewQuantity(int64(wants.GPU), resource.DecimalSI)
		requests[gpuResource], limits[gpuResource] = count, count
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

func fromSecret(secret corev1.LocalObjectReference, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret, Key: key},
	}}
}

func seconds(d time.Duration) *int64 {
	n := int64(d / time.Second)
	return &n
}

// put creates the gang's Secret and those of its pods that are not there.
func (p *Pool) put(ctx context.Context, g gang, r training.Request) error {
	agent, err := p.opts.Program(ctx, lent)
	if err != nil {
		return err
	}
	template, err := podtemplate.Parse(p.opts.Spec.Kubernetes.Pod)
	if err != nil {
		return err
	}
	secret, err := p.secretOf(g, r, template, agent)
	if err != nil {
		return err
	}
	if err := p.call(ctx, "create the agents' Secret", func(ctx context.Context) error {
		_, err := p.opts.Client.Secrets(p.opts.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	for node := range g.nodes {
		pod, err := p.podOf(g, r, template, node)
		if err != nil {
			return err
		}
		if err := p.call(ctx, "create a pod", func(ctx context.Context) error {
			_, err := p.opts.Client.Pods(p.opts.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// call makes one call of the API. What it would create may be there.
func (p *Pool) call(ctx context.Context, doing string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := f(ctx); !apierrors.IsAlreadyExists(err) {
		return apiError(doing, err)
	}
	return nil
}
