package agent

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/helper"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// readEvery is how often the GPUs are read.
	readEvery = 5 * time.Second
	// watchAgain is the pause before the GPUs are watched again after a failure.
	watchAgain = 30 * time.Second
	// notifyAgain is the pause before the workflow is notified again after a failure.
	notifyAgain = time.Second
	// faultLimit is how long to wait, after ranks have failed, for the report of a GPU error: the program notices it first.
	faultLimit = 2 * time.Second
)

// gpuWatch watches the node's GPUs while its ranks run. It is nil if the step has none.
type gpuWatch struct {
	r      *ranks
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	broken chan struct{} // closed when fault is set

	mu       sync.Mutex
	readings []gpu.Reading
	use      gpuUse
	idle     idleWindow
	released bool // the workflow has been told that they are idle
	fault    *gpu.Event
}

// watchGPUs watches the node's GPUs until stop. If that fails, it logs why, but not the same reason again.
func watchGPUs(r *ranks) *gpuWatch {
	if r.p.spec.Resources.GPU == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &gpuWatch{r: r, cancel: cancel, broken: make(chan struct{})}
	if limit := r.p.spec.Resources.Idle; limit != nil {
		w.idle.limit = *limit
	}
	w.tasks.Go(func() {
		path := cmp.Or(r.node.config.GPUHelper, helper.Path())
		for logged := ""; ; {
			err := helper.Watch(ctx, path, r.node.config.GPUs, readEvery, func(report gpu.Report) { w.handle(ctx, report) })
			w.forget()
			if err != nil && err.Error() != logged {
				logged = err.Error()
				r.node.log.Warn("the GPUs are not monitored: their utilization and errors are unknown", "error", err, "again_in", watchAgain)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchAgain):
			}
		}
	})
	return w
}

// handle handles a report.
func (w *gpuWatch) handle(ctx context.Context, report gpu.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if report.Event != nil {
		w.handleEvent(ctx, *report.Event)
		return
	}
	w.readings = report.Readings
	w.use.add(report.Readings)
	share, known := gpu.MeanUtilization(report.Readings)
	if !known {
		return
	}
	w.idle.add(report.At, share)
	if why := w.idle.why(); why != "" && w.idle.limit.Action == spec.IdleRelease && !w.released {
		w.released = true
		w.notify(ctx, protocol.Notice{Cause: protocol.CauseIdle, Reason: why})
	}
}

// handleEvent handles an error of a GPU. If the GPU needs a reset, the workflow is told to leave the node, and the pool is told, too.
func (w *gpuWatch) handleEvent(ctx context.Context, event gpu.Event) {
	w.use.addEvent(event)
	w.r.node.log.Warn("a GPU reports an error", "event", event.String(), "action", event.Action())
	if !event.Unusable() || w.fault != nil {
		return
	}
	w.fault = &event
	close(w.broken)
	if err := protocol.WriteFile(filepath.Join(w.r.node.config.Dir, protocol.FaultFile), event); err != nil {
		w.r.node.log.Warn("the broken GPU could not be reported to the pool", "error", err)
	}
	w.notify(ctx, protocol.Notice{Cause: protocol.CauseFault, Reason: event.String()})
}

// forget drops the readings, which are out of date once the GPUs are no longer watched.
func (w *gpuWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings, w.idle.kept, w.idle.now = nil, nil, false
}

// notify sends the train workflow a notice. It retries until that succeeds or the ranks have ended.
func (w *gpuWatch) notify(ctx context.Context, notice protocol.Notice) {
	notice.Generation, notice.Node = w.r.key.Generation, w.r.p.index
	w.tasks.Go(func() {
		for range poll.Every(ctx, notifyAgain) {
			err := w.r.node.signal(ctx, w.r.p.workflow, notice)
			if err == nil || ctx.Err() != nil {
				return
			}
			w.r.node.log.Warn("the state of the GPUs could not be reported to the workflow yet", "cause", notice.Cause, "error", err)
		}
	})
}

// stop ends the watch. If the ranks failed by themselves, it first waits for the report of a GPU error.
func (w *gpuWatch) stop(failed bool) {
	if w == nil {
		return
	}
	if failed {
		select {
		case <-w.broken:
		case <-time.After(faultLimit):
		}
	}
	w.cancel()
	w.tasks.Wait()
}

// current returns what a heartbeat reports: the readings, and the message that the GPUs are idle.
func (w *gpuWatch) current() (readings []gpu.Reading, idle string) {
	if w == nil {
		return nil, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readings, w.idle.why()
}

// summary returns the use of the GPUs, for the record, and the error that made one unusable.
func (w *gpuWatch) summary() (use *spec.GPUUse, fault string) {
	if w == nil {
		return nil, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		fault = w.fault.String()
	}
	use = w.use.sum()
	if use != nil {
		use.IdleSeconds = w.idle.total.Seconds()
	}
	return use, fault
}

// idleWindow decides whether the GPUs are idle, by their utilization over the period that the limit sets.
type idleWindow struct {
	limit spec.Idle
	kept  []idleSample
	mean  float64
	now   bool          // idle now
	total time.Duration // how long they have been idle
}

type idleSample struct {
	at    time.Time
	share float64
}

// add adds a sample of how busy the GPUs are. They are idle if the mean over the whole window is below the limit.
func (i *idleWindow) add(at time.Time, share float64) {
	if i.limit.For <= 0 {
		return
	}
	span := time.Duration(i.limit.For)
	if i.now && len(i.kept) > 0 {
		i.total += at.Sub(i.kept[len(i.kept)-1].at)
	}
	i.kept = append(i.kept, idleSample{at, share})
	for len(i.kept) > 1 && at.Sub(i.kept[1].at) >= span {
		i.kept = i.kept[1:]
	}
	sum := 0.0
	for _, s := range i.kept {
		sum += s.share
	}
	i.mean = sum / float64(len(i.kept))
	idle := at.Sub(i.kept[0].at) >= span && i.mean < float64(i.limit.Below)
	if idle && !i.now {
		i.total += span
	}
	i.now = idle
}

// why returns the message that the GPUs are idle. It is empty if they are not.
func (i *idleWindow) why() string {
	if !i.now {
		return ""
	}
	return fmt.Sprintf("the GPUs were busy %.0f%% of the last %s, less than %.0f%%", 100*i.mean, i.limit.For, 100*float64(i.limit.Below))
}

// maxEvents is how many different GPU errors are kept as text.
const maxEvents = 8

// gpuUse sums up readings.
type gpuUse struct {
	spec.GPUUse
	reads, known, throttled int
	utilization, power      float64
	first                   map[string]int64 // by GPU, the uncorrected errors at the first reading
	errors                  map[string]int64 // by GPU, the uncorrected errors since
}

// add adds the readings of one moment.
func (u *gpuUse) add(readings []gpu.Reading) {
	if u.first == nil {
		u.first, u.errors = map[string]int64{}, map[string]int64{}
	}
	u.Count = max(u.Count, len(readings))
	for _, r := range readings {
		u.reads++
		u.Model = r.Model
		u.Memory = max(u.Memory, r.Memory)
		u.MemoryPeak = max(u.MemoryPeak, r.MemoryUsed)
		u.TemperatureMax = max(u.TemperatureMax, r.Temperature)
		u.power += r.Power
		if r.Utilization != nil {
			u.known++
			u.utilization += *r.Utilization
		}
		if len(r.Throttled) > 0 {
			u.throttled++
		}
		if _, ok := u.first[r.UUID]; !ok {
			u.first[r.UUID] = r.Uncorrected
		}
		u.errors[r.UUID] = max(0, r.Uncorrected-u.first[r.UUID])
	}
}

// addEvent records an error of a GPU, the same error only once.
func (u *gpuUse) addEvent(event gpu.Event) {
	if said := event.String(); len(u.Events) < maxEvents && !slices.Contains(u.Events, said) {
		u.Events = append(u.Events, said)
	}
}

// sum returns the totals. It is nil if nothing was ever reported.
func (u *gpuUse) sum() *spec.GPUUse {
	if u.reads == 0 && len(u.Events) == 0 {
		return nil
	}
	use := u.GPUUse
	reads := float64(max(1, u.reads))
	use.Utilization, use.UtilizationUnknown = u.utilization/float64(max(1, u.known)), u.known == 0
	use.PowerMean, use.Throttled = u.power/reads, float64(u.throttled)/reads
	for _, n := range u.errors {
		use.ECCUncorrected += n
	}
	return &use
}
