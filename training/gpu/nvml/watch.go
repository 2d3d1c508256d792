package nvml

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

const (
	// eventWait is for how long the driver is asked for events at a time, between which it is seen whether the watch is over.
	eventWait = 200 * time.Millisecond
	// xidLost is the XID of a GPU that has fallen off the bus.
	xidLost = 79
	// wholeGPU is what an event has for the IDs of instances where it is of no single one.
	wholeGPU = math.MaxUint32
)

// Watch reports the readings of the units with these UUIDs, all when there are none, at once and then that often; and each of their XIDs. It
// returns nil when ctx ends, and the error of emit.
func (d *Driver) Watch(ctx context.Context, uuids []string, every time.Duration, emit func(gpu.Report) error) error {
	units, err := d.units(uuids)
	if err != nil {
		return err
	}
	w := &watch{units: units, emit: emit, lost: map[string]bool{}}
	free, err := w.listen(d.api)
	if err != nil {
		return err
	}
	defer free()
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
	units  []unit
	events nvml.EventSet // nil where no unit reports any
	emit   func(gpu.Report) error
	lost   map[string]bool // the units that do not answer, by UUID
}

// listen has the driver keep the XIDs of the units' GPUs. Some GPUs report none.
func (w *watch) listen(api nvml.Interface) (free func(), err error) {
	events, ret := api.EventSetCreate()
	if err := failed("ask for the GPUs' errors", ret); err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, u := range w.units {
		if known[u.GPU] {
			continue
		}
		known[u.GPU] = true
		ret := u.device.RegisterEvents(nvml.EventTypeXidCriticalError, events)
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		} else if err := failed(fmt.Sprintf("ask for the errors of GPU %d", u.GPU), ret); err != nil {
			events.Free()
			return nil, err
		}
		w.events = events
	}
	return func() { events.Free() }, nil
}

// read reports the readings. A GPU that does not answer any more has fallen off the bus, whether or not an event of that comes.
func (w *watch) read(now time.Time) error {
	report := gpu.Report{At: now}
	for _, u := range w.units {
		r, lost := u.read()
		if !lost {
			report.Readings = append(report.Readings, r)
			continue
		}
		if err := w.lose(u); err != nil {
			return err
		}
	}
	if len(report.Readings) == 0 {
		return nil
	}
	return w.emit(report)
}

// lose reports a unit, once, that has fallen off the bus.
func (w *watch) lose(u unit) error {
	if w.lost[u.UUID] {
		return nil
	}
	w.lost[u.UUID] = true
	return w.emit(gpu.Report{At: time.Now(), Event: &gpu.Event{XID: xidLost, UUID: u.UUID, Index: u.GPU}})
}

// wait waits for the next event, up to a limit, and reports it.
func (w *watch) wait(ctx context.Context, limit time.Duration) error {
	if w.events == nil {
		return pause(ctx, limit)
	}
	began := time.Now()
	data, ret := w.events.Wait(uint32(max(1, limit.Milliseconds())))
	switch ret {
	case nvml.SUCCESS:
		return w.report(data)
	case nvml.ERROR_TIMEOUT:
		return nil
	case nvml.ERROR_GPU_IS_LOST: // the readings say which; asked again, it answers so at once
		return pause(ctx, limit-time.Since(began))
	}
	return failed("wait for errors of the GPUs", ret)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return nil
}

// report reports an event of each unit that it concerns.
func (w *watch) report(data nvml.EventData) error {
	if data.EventType != nvml.EventTypeXidCriticalError || data.Device == nil {
		return nil
	}
	uuid, ret := data.Device.GetUUID()
	for _, u := range w.units {
		if of, _ := u.device.GetUUID(); ret != nvml.SUCCESS || of != uuid || !u.concerned(data) {
			continue
		}
		if data.EventData == xidLost {
			if err := w.lose(u); err != nil {
				return err
			}
			continue
		}
		event := gpu.Event{XID: int(data.EventData), UUID: u.UUID, Index: u.GPU, Recovery: recovery(u.device)}
		if err := w.emit(gpu.Report{At: time.Now(), Event: &event}); err != nil {
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
