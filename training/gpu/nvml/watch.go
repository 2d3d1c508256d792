//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

const (
	// eventWait is for how long the driver is asked for events at a time, between which it is seen whether the watch is over.
	eventWait = 200 * time.Millisecond
	// wholeGPU is what an event has for the IDs of instances where it is of no single one.
	wholeGPU = math.MaxUint32
)

// Watch reports the readings of the units with these UUIDs, all when there are none, at once and then that often; and each of their XIDs. It
// returns nil when ctx ends, and the error of emit.
func (d *Driver) Watch(ctx context.Context, uuids []string, every time.Duration, emit func(gpu.Report) error) (err error) {
	units, err := d.units(uuids)
	if err != nil {
		return err
	}
	w := &watch{units: units, emit: emit, lost: map[string]bool{}, unusable: map[string]bool{}}
	free, err := w.listen(d.api)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	for next := time.Now(); ctx.Err() == nil; {
		if now := time.Now(); !now.Before(next) {
			if err := w.read(now); err != nil {
				return err
			}
			next = now.Add(every)
		}
		if err := w.wait(ctx, min(eventWait, every)); err != nil {
			return err
		}
	}
	return nil
}

// watch is one of Watch.
type watch struct {
	units    []unit
	events   nvml.EventSet // nil where no unit reports any
	emit     func(gpu.Report) error
	lost     map[string]bool // the units that do not answer, by UUID
	unusable map[string]bool // and those that need a reset, as far as that was reported
}

// listen has the driver keep the XIDs of the units' GPUs. Some GPUs report none.
func (w *watch) listen(api nvml.Interface) (free func() error, err error) {
	events, ret := api.EventSetCreate()
	if err := failed("ask for the GPUs' errors", ret); err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, u := range w.units {
		if u.device == nil || known[u.GPU] {
			continue
		}
		known[u.GPU] = true
		ret := u.device.RegisterEvents(nvml.EventTypeXidCriticalError, events)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_GPU_IS_LOST { // of the lost the readings tell
			continue
		} else if err := failed(fmt.Sprintf("ask for the errors of GPU %d", u.GPU), ret); err != nil {
			return nil, errors.Join(err, failed("stop watching their errors", events.Free()))
		}
		w.events = events
	}
	return func() error { return failed("stop watching the GPUs' errors", events.Free()) }, nil
}

// read reports the readings, also where there are none, which shows that the watch goes on. What a GPU says that it needs, and that it does
// not answer any more, is reported whether or not an event of that comes: those of before the watch are gone.
func (w *watch) read(now time.Time) error {
	report := gpu.Report{At: now}
	for _, u := range w.units {
		r, lost := u.read()
		if lost {
			if err := w.lose(u); err != nil {
				return err
			}
			continue
		}
		report.Readings = append(report.Readings, r)
		if needs := recovery(u.device); needs != "" && needs != gpu.RecoveryNone {
			if err := w.raise(u, gpu.XIDRecovery, needs); err != nil {
				return err
			}
		}
	}
	return w.emit(report)
}

// lose reports a unit, once, that has fallen off the bus.
func (w *watch) lose(u unit) error {
	if w.lost[u.UUID] {
		return nil
	}
	w.lost[u.UUID] = true
	return w.raise(u, gpu.XIDLost, "")
}

// raise reports an event of a unit. That a GPU needs a reset is no news after an error that said so.
func (w *watch) raise(u unit, xid int, recovery string) error {
	event := gpu.Event{XID: xid, UUID: u.UUID, Index: u.GPU, Recovery: recovery}
	if event.Unusable() {
		if xid == gpu.XIDRecovery && w.unusable[u.UUID] {
			return nil
		}
		w.unusable[u.UUID] = true
	}
	return w.emit(gpu.Report{At: time.Now(), Event: &event})
}

// wait waits for the next event, up to a limit, and reports it.
func (w *watch) wait(ctx context.Context, limit time.Duration) error {
	if w.events == nil {
		pause(ctx, limit)
		return nil
	}
	began := time.Now()
	data, ret := w.events.Wait(uint32(max(1, limit.Milliseconds())))
	switch {
	case ret == nvml.SUCCESS:
		return w.report(data)
	case ret == nvml.ERROR_TIMEOUT:
		return nil
	case ret == nvml.ERROR_GPU_IS_LOST: // the readings say which; asked again, it answers so at once
		pause(ctx, limit-time.Since(began))
		return nil
	}
	return failed("wait for errors of the GPUs", ret)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// report reports an event of each unit that it concerns.
func (w *watch) report(data nvml.EventData) error {
	if data.EventType != nvml.EventTypeXidCriticalError || data.Device == nil {
		return nil
	}
	uuid, ret := data.Device.GetUUID()
	if ret != nvml.SUCCESS {
		return w.read(time.Now()) // which finds the one that does not answer any more
	}
	for _, u := range w.units {
		if u.device == nil || !u.concerned(data) {
			continue
		}
		if of, _ := u.device.GetUUID(); of != uuid {
			continue
		}
		var err error
		if data.EventData == gpu.XIDLost {
			err = w.lose(u)
		} else {
			err = w.raise(u, int(data.EventData), recovery(u.device))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// concerned reports whether an event of its GPU is one of the unit: an error may be contained in another instance.
func (u unit) concerned(data nvml.EventData) bool {
	if u.instance == nil || data.GpuInstanceId == wholeGPU {
		return true
	}
	return int(data.GpuInstanceId) == u.instance.GPUInstance &&
		(data.ComputeInstanceId == wholeGPU || int(data.ComputeInstanceId) == u.instance.ComputeInstance)
}
