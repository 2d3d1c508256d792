package spec

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
	// Capacity is what may be bought here, spot or on_demand or both. Default: on_demand; spot where a local pool plays interruptions.
	Capacity []string `json:"capacity,omitempty" dsl:"single,enum=spot|on_demand"`
	// Runtime is what commands run in that do not say so themselves.
	Runtime Runtime `json:"runtime,omitzero"`
	// Limits bound what all runs together take of the pool.
	Limits PoolLimits `json:"limits,omitzero"`
	// Node is what one node of the pool has.
	Node NodeShape `json:"node,omitzero"`
	// USDPerHour is what a node costs an hour, for ledgers, budgets and deadlines.
	USDPerHour Prices `json:"usd_per_hour,omitzero"`
	// MetricsListen is the address, host:port, at which the agent of each node answers Prometheus at /metrics. Default: none.
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

// Of returns the price of a node of that capacity; 0 when it is not known.
func (p Prices) Of(capacity string) float64 {
	if capacity == CapacitySpot {
		return p.Spot
	}
	return p.OnDemand
}

// PoolLimits bound a pool.
type PoolLimits struct {
	// Nodes is how many there may be at once.
	Nodes int `json:"nodes,omitempty" dsl:"min=1"`
	// USDPerHour is what all nodes together may cost an hour.
	USDPerHour float64 `json:"usd_per_hour,omitempty" dsl:"min=0"`
}

// NodeShape is what one node has.
type NodeShape struct {
	// CPU is how many cores.
	CPU float64 `json:"cpu,omitempty" dsl:"min=0"`
	// Memory of the node.
	Memory Size `json:"memory,omitempty"`
	// GPU is how many GPUs.
	GPU int `json:"gpu,omitempty" dsl:"min=0,max=64"`
	// GPUType is the GPU's model.
	GPUType string `json:"gpu_type,omitempty"`
}

// Prices of one node in dollars an hour, by capacity.
type Prices struct {
	// OnDemand is the price of a node that stays.
	OnDemand float64 `json:"on_demand,omitempty" dsl:"min=0"`
	// Spot is the price of a node that may be reclaimed.
	Spot float64 `json:"spot,omitempty" dsl:"min=0"`
}

// LocalPool plays a pool of machines with local processes.
type LocalPool struct {
	// Nodes is how many nodes there are.
	Nodes int `json:"nodes" dsl:"min=1,max=64"`
	// Interruptions play the spot market. Absent: nodes live as long as they are wanted.
	Interruptions *Interruptions `json:"interruptions,omitempty"`
}

// Interruptions describe a simulated spot market.
type Interruptions struct {
	// MeanUp is the mean time from a gang's first training step to its interruption.
	MeanUp Duration `json:"mean_up"`
	// Notice is how long before a node's end it is told.
	Notice Duration `json:"notice"`
	// WithoutNotice is the share of interruptions that come without any.
	WithoutNotice Share `json:"without_notice,omitempty"`
	// Gap is how long there is no spot after an interruption. Default: there is some at once.
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
	// ServiceAccount of the pods, by which they reach the store without keys. Default: the namespace's; the pods then get the worker's
	// AWS_ variables when these are keys of a session, which end by themselves.
	ServiceAccount string `json:"service_account,omitempty"`
	// ShareKeys lets the pods have the worker's AWS keys also when these do not end: whoever may read Secrets of the namespace can read them.
	ShareKeys bool `json:"share_keys,omitempty"`
}

// EC2Pool runs each node as an instance.
type EC2Pool struct {
	// Region of the instances.
	Region string `json:"region"`
	// Types are the instance types that will do.
	Types []string `json:"types" dsl:"single"`
	// Subnets the instances may be in; the gang is in one zone.
	Subnets []string `json:"subnets" dsl:"single"`
	// InstanceProfile gives the instances their role, which must be able to use the store.
	InstanceProfile string `json:"instance_profile,omitempty" dsl:"default=sluice-node"`
	// SecurityGroups of the instances, by ID, which must let them reach each other. Default: the VPC's own, which does.
	SecurityGroups []string `json:"security_groups,omitempty" dsl:"single"`
	// Image is the machine image, by ID (ami-...) or as the parameter of AWS Systems Manager that holds the ID (/aws/service/...). It has
	// curl, and Docker where the runtime is an image. Default: the newest of AWS's Deep Learning Base images, with the NVIDIA driver.
	Image string `json:"image,omitempty"`
}
