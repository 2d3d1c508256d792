package spec

import "time"

// What may be bought of a pool.
const (
	CapacitySpot     = "spot"
	CapacityOnDemand = "on_demand"
)

// Pool is where nodes come from: exactly one driver key, and what holds for every driver.
type Pool struct {
	// Local runs nodes as processes on this machine.
	Local *LocalPool `json:"local,omitempty" dsl:"choice"`
	// Kubernetes runs nodes as pods.
	Kubernetes *KubernetesPool `json:"kubernetes,omitempty" dsl:"choice"`
	// EC2 runs nodes as instances of Amazon EC2.
	EC2 *EC2Pool `json:"ec2,omitempty" dsl:"choice"`
	// Capacity is the capacity of the pool: spot, on_demand or both. Default: on_demand, or spot for a local pool with interruptions.
	Capacity []string `json:"capacity,omitempty" dsl:"single,enum=spot|on_demand"`
	// Runtime is the runtime of steps that do not set their own.
	Runtime Runtime `json:"runtime,omitzero"`
	// Limits for all runs together.
	Limits PoolLimits `json:"limits,omitzero"`
	// Node is the resources of a node of the pool.
	Node NodeShape `json:"node,omitzero"`
	// USDPerHour is the price of a node per hour, for ledgers, budgets and deadlines.
	USDPerHour Prices `json:"usd_per_hour,omitzero"`
	// RetryFor is how long the pool is asked again if it refuses nodes for a reason that may pass: a quota is used up, an image cannot be
	// pulled at the moment, a node does not start, or the API of the pool does not respond. A step does not use up its retries for it.
	// There is no such limit for capacity that is not available. Default 30m.
	RetryFor Duration `json:"retry_for,omitempty" dsl:"default=30m"`
	// MetricsListen is the address, host:port, on which the agent of each node serves /metrics for Prometheus. Default: none.
	MetricsListen string `json:"metrics_listen,omitempty"`
}

// Sells lists what may be bought of the pool.
func (p Pool) Sells() []string {
	switch {
	case len(p.Capacity) > 0:
		return p.Capacity
	case p.Local != nil && p.Local.Interruptions != nil:
		return []string{CapacitySpot}
	}
	return []string{CapacityOnDemand}
}

// Size is how many nodes the pool can have at once; 0 when nothing limits them.
func (p Pool) Size() int {
	switch {
	case p.Local == nil:
		return p.Limits.Nodes
	case p.Limits.Nodes == 0:
		return p.Local.Nodes
	}
	return min(p.Limits.Nodes, p.Local.Nodes)
}

// How long a pool's nodes take at most from being asked for to being ready, where there are nodes to be had. Deadlines are kept by it.
const (
	EC2Within        = 20 * time.Minute
	KubernetesWithin = 5 * time.Minute
)

// StartWithin is how long nodes of the pool take at most to be ready; 0 where they are ready at once.
func (p Pool) StartWithin() time.Duration {
	switch {
	case p.EC2 != nil:
		return EC2Within
	case p.Kubernetes != nil:
		return KubernetesWithin
	}
	return 0
}

// Of returns the price of a node of that capacity; 0 when it is not known.
func (p Prices) Of(capacity string) float64 {
	if capacity == CapacitySpot {
		return p.Spot
	}
	return p.OnDemand
}

// PoolLimits bound a pool.
type PoolLimits struct {
	// Nodes is the maximum number of nodes at once.
	Nodes int `json:"nodes,omitempty" dsl:"min=1"`
	// USDPerHour is the maximum cost of all nodes together per hour.
	USDPerHour float64 `json:"usd_per_hour,omitempty" dsl:"min=0"`
}

// NodeShape is what one node has.
type NodeShape struct {
	// CPU is the number of cores.
	CPU float64 `json:"cpu,omitempty" dsl:"min=0"`
	// Memory of the node.
	Memory Size `json:"memory,omitempty"`
	// GPU is the number of GPUs.
	GPU int `json:"gpu,omitempty" dsl:"min=0,max=64"`
	// GPUType is the model of the GPU.
	GPUType string `json:"gpu_type,omitempty"`
}

// Prices of one node in dollars an hour, by capacity.
type Prices struct {
	// OnDemand is the price of an on-demand node.
	OnDemand float64 `json:"on_demand,omitempty" dsl:"min=0"`
	// Spot is the price of a spot node.
	Spot float64 `json:"spot,omitempty" dsl:"min=0"`
}

// DefaultFileCache is how large a file cache may become where a pool says nothing else.
const DefaultFileCache Size = 50 << 30

// FileCacheOf is how large a pool's file cache may become, by its key: 0 without one, which is so by default unless it is of use.
func FileCacheOf(key *Size, ofUse bool) Size {
	switch {
	case key != nil:
		return *key
	case ofUse:
		return DefaultFileCache
	}
	return 0
}

// LocalPool plays a pool of machines with local processes.
type LocalPool struct {
	// Nodes is the number of nodes.
	Nodes int `json:"nodes" dsl:"min=1,max=64"`
	// Interruptions simulate a spot market. Default: no interruptions.
	Interruptions *Interruptions `json:"interruptions,omitempty"`
	// FileCache is how much of the files that nodes download is kept in the state folder for later steps and runs; the least recently used
	// are removed first. Default: 50GiB if the store is a bucket, else 0, which keeps none.
	FileCache *Size `json:"file_cache,omitempty"`
}

// Interruptions describe a simulated spot market.
type Interruptions struct {
	// MeanUp is the mean time from a gang's first training step to its interruption.
	MeanUp Duration `json:"mean_up,omitempty" dsl:"choice"`
	// MeanSteps is the mean number of training steps that a gang reports before its interruption, on a fast machine and on a slow one.
	MeanSteps int64 `json:"mean_steps,omitempty" dsl:"choice,min=1,max=1000000000"`
	// Notice is how long before its end a node gets the notice.
	Notice Duration `json:"notice"`
	// WithoutNotice is the share of interruptions without a notice.
	WithoutNotice Share `json:"without_notice,omitempty"`
	// Gap is how long spot is unavailable after an interruption. Default: it is available at once.
	Gap Duration `json:"gap,omitempty"`
}

// KubernetesPool runs each node as a pod.
type KubernetesPool struct {
	// Context of the kubeconfig. Default: the current one; inside a cluster, that cluster.
	Context string `json:"context,omitempty"`
	// Namespace of the pods. Default: the context's.
	Namespace string `json:"namespace,omitempty"`
	// Queue is the Kueue queue that admits gangs. Default: none; the scheduler places the pods.
	Queue string `json:"queue,omitempty"`
	// ServiceAccount of the pods, which gives them access to the store without keys. Default: the namespace's; the pods then get the
	// worker's AWS_ variables if these are session keys, which expire.
	ServiceAccount string `json:"service_account,omitempty"`
	// ShareKeys gives pods the worker's AWS keys even if they do not expire. Anyone who may read Secrets in the namespace can read them.
	ShareKeys bool `json:"share_keys,omitempty"`
	// Pod is a PodTemplateSpec of Kubernetes for the pods: labels and annotations in metadata; in spec, node selectors, affinity,
	// tolerations, topology spread, priority class, volumes, pull secrets, security context, and for the container `ranks` environment,
	// mounts, further resources and capabilities. What Sluice sets itself cannot be overridden.
	Pod map[string]any `json:"pod,omitempty" dsl:"raw"`
	// FileCache is how much of the files that pods download is kept for later steps and runs on the volume `file-cache` of the pod template;
	// the least recently used are removed first. Default: 50GiB if there is such a volume.
	FileCache *Size `json:"file_cache,omitempty"`
}

// EC2Pool runs each node as an instance.
type EC2Pool struct {
	// Region of the instances.
	Region string `json:"region"`
	// Types are the acceptable instance types.
	Types []string `json:"types" dsl:"single"`
	// Subnets for the instances; all instances of a gang are in one zone.
	Subnets []string `json:"subnets" dsl:"single"`
	// InstanceProfile is the instance profile with the role of the instances, which must have access to the store. Default: that of
	// `instance` or `launch_template`, else sluice-node.
	InstanceProfile string `json:"instance_profile,omitempty"`
	// SecurityGroups of the instances, by ID. They must let the instances reach each other. Default: those of `instance` or
	// `launch_template`, else the VPC's default group, which does.
	SecurityGroups []string `json:"security_groups,omitempty" dsl:"single"`
	// Image is the machine image, by ID (ami-...) or as the parameter of AWS Systems Manager that holds the ID (/aws/service/...). It must
	// have curl, and Docker if the runtime is an image. Default: that of `instance` or `launch_template`, else the newest of AWS's Deep
	// Learning Base images, with the NVIDIA driver.
	Image string `json:"image,omitempty"`
	// Registries are the logins with which instances pull the images of the runtime, by the host of the registry: ghcr.io, docker.io.
	// Private registries of Amazon ECR need none: the role of the instances is used.
	Registries map[string]RegistryLogin `json:"registries,omitempty"`
	// Instance is the data of a launch template of EC2 (RequestLaunchTemplateData) for the instances: BlockDeviceMappings,
	// TagSpecifications, Placement, NetworkInterfaces, CapacityReservationSpecification and so on. What Sluice sets itself cannot be
	// overridden.
	Instance map[string]any `json:"instance,omitempty" dsl:"raw"`
	// LaunchTemplate is a launch template of your account that is used like `instance`, and instead of it.
	LaunchTemplate *LaunchTemplate `json:"launch_template,omitempty"`
}

// RegistryLogin is a login to a registry of container images.
type RegistryLogin struct {
	// User of the registry.
	User string `json:"user"`
	// PasswordSecret names the secret with the password, or with a token that stands for it.
	PasswordSecret string `json:"password_secret"`
}

// LaunchTemplate is a version of a launch template: by exactly one of id and name.
type LaunchTemplate struct {
	// ID of the template (lt-...).
	ID string `json:"id,omitempty" dsl:"choice"`
	// Name of the template.
	Name string `json:"name,omitempty" dsl:"choice"`
	// Version is the number of the version.
	Version int `json:"version" dsl:"min=1"`
}
