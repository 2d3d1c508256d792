package spec

// Placement is where the programs of a step run, and what they need there.
type Placement struct {
	// Resources of each node.
	Resources Resources `json:"resources,omitzero"`
	// Pool is the pool of the environment that provides nodes, or several pools in the order of preference. Default: `train` uses the only
	// pool; the programs of other kinds run beside the worker.
	Pool []string `json:"pool,omitempty" dsl:"literal,single"`
	// Capacity is the capacity that may be bought: spot, on_demand, or auto, which chooses between the two.
	Capacity string `json:"capacity,omitempty" dsl:"literal,default=auto,enum=auto|spot|on_demand"`
}

// Resources are what one node must have.
type Resources struct {
	// CPU is the number of cores, such as 0.5 or 4. The local pool sets OMP_NUM_THREADS to it, but does not limit processes to it.
	CPU float64 `json:"cpu,omitempty" dsl:"min=0"`
	// Memory of the node.
	Memory Size `json:"memory,omitempty"`
	// GPU is the number of GPUs.
	GPU int `json:"gpu,omitempty" dsl:"min=0,max=64"`
	// GPUType is the model of the GPU, or a list of acceptable models.
	GPUType []string `json:"gpu_type,omitempty" dsl:"single"`
	// SHM is the size of /dev/shm, which data loaders with worker processes share.
	SHM Size `json:"shm,omitempty"`
	// Idle is what happens if GPUs are hardly used. Default: nothing.
	Idle *Idle `json:"idle,omitempty"`
}

// Idle is what happens to a node's GPUs that are hardly used.
type Idle struct {
	// Below is the average utilization of a node's GPUs below which they are idle.
	Below Share `json:"below"`
	// For is the period over which utilization is averaged.
	For Duration `json:"for"`
	// Action is what happens if GPUs are idle: warn (default), or release, which stops the training after a checkpoint, releases the nodes
	// and fails the step.
	Action string `json:"action,omitempty" dsl:"default=warn,enum=warn|release"`
}

// What happens to a training whose GPUs are idle.
const (
	IdleWarn    = "warn"
	IdleRelease = "release"
)

// CapacityAuto lets what serves the step best be bought.
const CapacityAuto = "auto"

// Placed is the placement itself, of whatever step has one.
func (p *Placement) Placed() *Placement { return p }

// OnPool reports whether the step names pools.
func (p *Placement) OnPool() bool { return len(p.Pool) > 0 }

// Buys reports whether the step may buy that capacity.
func (p *Placement) Buys(capacity string) bool {
	return p.Capacity == "" || p.Capacity == CapacityAuto || p.Capacity == capacity
}

// clear drops the defaults of what does not apply to a step beside the worker, which would be in its cache key.
func (p *Placement) clear() {
	if !p.OnPool() {
		p.Capacity = ""
	}
}

// train is a training that does, on one node of the step's pools, what a step of another kind asks for. Nothing tells a long evaluation
// from one that hangs, so only the step's timeout ends it.
func (p *Placement) train(command Command, metrics []string) Train {
	train := DefaultsOf[Train]()
	train.Command, train.Placement, train.Metrics = command, *p, metrics
	train.Hang = &Hang{Action: HangIgnore}
	train.Nodes.Max = train.Nodes.Min
	return train
}
