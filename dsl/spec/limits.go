package spec

import "fmt"

// WorkerLimits bound what runs beside a worker at the same time: the steps of kind run, evaluate, clean and compile that are not on a pool.
// A step for which there is no room waits, in the order in which the steps came. Each worker counts for itself, over all runs; trainings on a
// local pool are bounded by the pool. What is left out is not limited.
type WorkerLimits struct {
	// Steps is the maximum number of steps at once.
	Steps int `json:"steps,omitempty" dsl:"min=1"`
	// CPU is the number of cores that all steps together may request in `resources`. A step that requests none counts as one core.
	CPU float64 `json:"cpu,omitempty" dsl:"min=0"`
	// Memory is the memory that all steps together may request in `resources`; a clean step counts with the memory that the environment's
	// `clean` allows it. A step that requests none counts as none.
	Memory Size `json:"memory,omitempty"`
	// GPU is the number of GPUs of the worker's machine that steps may use. Each step is assigned as many as it requests in `resources`, by
	// CUDA_VISIBLE_DEVICES. 0 is no limit.
	GPU int `json:"gpu,omitempty" dsl:"min=0,max=64"`
}

// Exceeded names the first of a step's resources of which it requests more than all that the limits allow, so that it would wait for ever: the
// key, what it requests, and the limit. The key is empty if there is none.
func (l WorkerLimits) Exceeded(wants Resources) (key, wanted, limit string) {
	switch {
	case l.CPU > 0 && wants.CPU > l.CPU:
		return "cpu", fmt.Sprintf("%g cores", wants.CPU), fmt.Sprintf("%g", l.CPU)
	case l.Memory > 0 && wants.Memory > l.Memory:
		return "memory", wants.Memory.String(), l.Memory.String()
	case l.GPU > 0 && wants.GPU > l.GPU:
		return "gpu", fmt.Sprintf("%d GPUs", wants.GPU), fmt.Sprintf("%d", l.GPU)
	}
	return "", "", ""
}
