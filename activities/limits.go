package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// Limits admits steps on this worker in the order in which they arrive, each as soon as the limits of its environment leave room for it
// next to the running steps of all runs.
type Limits struct {
	Store *store.Store
	// Engine loads the environments of submissions.
	Engine *engine.Engine

	mu    sync.Mutex
	used  share
	gpus  map[int]bool // those that are assigned
	queue []*waiter    // the first one is admitted next
}

// share is the part of a worker's resources that steps use.
type share struct {
	steps  int
	cpu    float64
	memory int64
	gpu    int
}

func (s share) plus(o share) share {
	return share{s.steps + o.steps, s.cpu + o.cpu, s.memory + o.memory, s.gpu + o.gpu}
}

func (s share) minus(o share) share {
	return share{s.steps - o.steps, s.cpu - o.cpu, s.memory - o.memory, s.gpu - o.gpu}
}

// waiter is a step that has not been admitted yet.
type waiter struct {
	needs    share
	limits   spec.WorkerLimits
	admitted chan []int // takes the GPUs that are assigned to it
}

// errTooLate ends a step that exceeds its timeout, which starts when the step is admitted.
var errTooLate = errors.New("it took longer than its timeout")

// Admitted wraps an activity so that it waits until the limits of the step's environment leave room for the step. The wait does not count
// against the step's timeout.
func (l *Limits) Admitted(do ActivityOf) ActivityOf {
	return func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		sub, err := l.Engine.Submission(ctx, in.Submission)
		if err != nil {
			return record.StepOutput{}, err
		}
		env := sub.Program.Environment()
		wants, err := l.resources(ctx, in)
		if err != nil {
			return record.StepOutput{}, err
		}
		if env.Limits == (spec.WorkerLimits{}) {
			in.Env = withThreads(in.Env, wants.CPU)
			return do(ctx, in)
		}
		needs := needsOf(in.Kind, wants, env)
		if key, wanted, limit := env.Limits.Exceeded(wants); key != "" {
			return record.StepOutput{}, fault.Errorf(fault.Invalid, "resources.%s: it requests %s, but the environment `%s` allows %s beside a worker: "+
				"request less, or raise `limits.%[1]s`", key, wanted, env.Name, limit)
		}
		listed, isSet := os.LookupEnv(gpu.VisibleVariable)
		limits, visible := env.Limits, gpu.Entries(listed)
		if limits.GPU > 0 && isSet {
			if limits.GPU = min(limits.GPU, len(visible)); wants.GPU > limits.GPU {
				return record.StepOutput{}, fault.Errorf(fault.Infrastructure, "resources.gpu: it requests %d GPUs, but %s of the worker lists %d: request less, or "+
					"start the worker with more", wants.GPU, gpu.VisibleVariable, len(visible))
			}
		}
		gpus, err := l.await(ctx, l.join(needs, limits))
		if err != nil {
			return record.StepOutput{}, err
		}
		defer l.leave(needs, gpus)
		in.Env = withGPUs(withThreads(in.Env, wants.CPU), gpus, visible)
		return within(ctx, in, do)
	}
}

// resources are those that a step requests.
func (l *Limits) resources(ctx context.Context, in record.StepInput) (spec.Resources, error) {
	body, err := record.LoadSpec[struct {
		Resources spec.Resources `json:"resources"`
	}](ctx, l.Store, in)
	return body.Resources, err
}

// needsOf returns the resources that a step uses while it runs.
func needsOf(kind spec.Kind, wants spec.Resources, env *spec.Environment) share {
	needs := share{steps: 1, cpu: cmp.Or(wants.CPU, 1), memory: int64(wants.Memory), gpu: wants.GPU}
	if engine.Cleans(kind) {
		needs.memory = int64(env.Clean.Memory)
	}
	return needs
}

// within applies the step's timeout after its admission.
func within(ctx context.Context, in record.StepInput, do ActivityOf) (record.StepOutput, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, in.AttemptTimeout, errTooLate)
	defer cancel()
	out, err := do(bounded, in)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(bounded), errTooLate) {
		err = fault.Errorf(fault.Timeout, "%w of %s", errTooLate, spec.Duration(in.AttemptTimeout))
	}
	return out, err
}

// join puts a step at the end of the queue.
func (l *Limits) join(needs share, limits spec.WorkerLimits) *waiter {
	w := &waiter{needs: needs, limits: limits, admitted: make(chan []int, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
	l.admit()
	return w
}

// await waits until a step is admitted, and returns the GPUs assigned to it. A step that is canceled meanwhile takes no resources.
func (l *Limits) await(ctx context.Context, w *waiter) ([]int, error) {
	defer heartbeat.Instead(ctx, func() any { return protocol.Progress{Text: l.waiting(w), Share: -1} })()
	select {
	case gpus := <-w.admitted:
		return gpus, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case gpus := <-w.admitted: // at the same moment
		l.giveBack(w.needs, gpus)
	default:
		l.queue = slices.DeleteFunc(l.queue, func(other *waiter) bool { return other == w })
		l.admit()
	}
	return nil, ctx.Err()
}

// leave returns the resources of an admitted step.
func (l *Limits) leave(needs share, gpus []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(needs, gpus)
}

func (l *Limits) giveBack(needs share, gpus []int) {
	l.used = l.used.minus(needs)
	for _, gpu := range gpus {
		delete(l.gpus, gpu)
	}
	l.admit()
}

// admit admits steps from the head of the queue while there is room. A large step is not overtaken, because it might otherwise wait
// forever.
func (l *Limits) admit() {
	for len(l.queue) > 0 {
		w := l.queue[0]
		if len(l.lacks(w)) > 0 {
			return
		}
		l.queue = l.queue[1:]
		l.used = l.used.plus(w.needs)
		w.admitted <- l.assign(w)
	}
}

// lacks lists the limits that leave no room for a step. A step is always admitted if no other runs, because a limit may be as small as a
// fraction of a core.
func (l *Limits) lacks(w *waiter) []string {
	if l.used.steps == 0 {
		return nil
	}
	all := l.used.plus(w.needs)
	var full []string
	for _, of := range []struct {
		exceeded bool
		text     string
	}{
		{w.limits.Steps > 0 && all.steps > w.limits.Steps, fmt.Sprintf("steps: %d", w.limits.Steps)},
		{w.limits.CPU > 0 && all.cpu > w.limits.CPU, fmt.Sprintf("cpu: %g", w.limits.CPU)},
		{w.limits.Memory > 0 && all.memory > int64(w.limits.Memory), "memory: " + w.limits.Memory.String()},
		{w.limits.GPU > 0 && all.gpu > w.limits.GPU, fmt.Sprintf("gpu: %d", w.limits.GPU)},
	} {
		if of.exceeded {
			full = append(full, of.text)
		}
	}
	return full
}

// assign chooses the GPUs of a step, if the limits set their number.
func (l *Limits) assign(w *waiter) []int {
	var gpus []int
	for gpu := 0; gpu < w.limits.GPU && len(gpus) < w.needs.gpu; gpu++ {
		if l.gpus[gpu] {
			continue
		}
		if l.gpus == nil {
			l.gpus = map[int]bool{}
		}
		l.gpus[gpu] = true
		gpus = append(gpus, gpu)
	}
	return gpus
}

// waiting says what a step waits for.
func (l *Limits) waiting(w *waiter) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := max(0, slices.Index(l.queue, w)) // it may have been admitted just now
	full := l.lacks(w)
	if len(full) == 0 {
		return fmt.Sprintf("waiting for its turn: %s before it", human.Plural(int64(place), "step"))
	}
	return fmt.Sprintf("waiting for room beside the worker (`limits: {%s}` of the environment): %s running, %d waiting before it",
		strings.Join(full, ", "), human.Plural(int64(l.used.steps), "step"), place)
}

// withThreads lets numerical libraries use as many threads as the step has requested cores, unless the step sets the variable itself.
func withThreads(env map[string]string, cpu float64) map[string]string {
	const variable = "OMP_NUM_THREADS"
	if _, set := env[variable]; set || cpu == 0 {
		return env
	}
	return with(env, variable, strconv.Itoa(int(math.Ceil(cpu))))
}

// withGPUs lets a program see the GPUs that are assigned to it: these are numbers of those that the worker sees, if that does not see all.
func withGPUs(env map[string]string, gpus []int, visible []string) map[string]string {
	if len(gpus) == 0 {
		return env
	}
	ids := make([]string, len(gpus))
	for i, n := range gpus {
		if ids[i] = strconv.Itoa(n); n < len(visible) {
			ids[i] = visible[n]
		}
	}
	return with(env, gpu.VisibleVariable, strings.Join(ids, ","))
}

func with(env map[string]string, name, value string) map[string]string {
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	env[name] = value
	return env
}
