//go:build cgo

package nvml

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

// unit is what is watched: a GPU, or an instance with the GPU that it is part of.
type unit struct {
	gpu.Unit
	device   nvml.Device   // the GPU's; nil when it does not answer
	part     nvml.Device   // the instance's; the GPU's where it is whole
	instance *gpu.Instance // nil where it is whole
}

// units opens those with the UUIDs; all when none is named. Where GPUs do not answer, a name that is not found is taken for one of them.
func (d *Driver) units(uuids []string) ([]unit, error) {
	inv, devices, err := d.inspect()
	if err != nil {
		return nil, err
	}
	all := inv.Units()
	if len(uuids) > 0 {
		all = nil
	}
	for _, uuid := range uuids {
		i := slices.IndexFunc(inv.Units(), func(u gpu.Unit) bool { return u.UUID == uuid })
		switch {
		case i >= 0:
			all = append(all, inv.Units()[i])
		case len(inv.Lost) > 0:
			all = append(all, gpu.Unit{UUID: uuid, GPU: inv.Lost[0].Index})
		default:
			return nil, fmt.Errorf("this machine has no GPU %s", uuid)
		}
	}
	units := make([]unit, len(all))
	for i, u := range all {
		units[i] = unit{Unit: u, device: devices[u.GPU], part: devices[u.GPU]}
		if !u.MIG {
			continue
		}
		owner, _ := inv.Owner(u.UUID)
		at := slices.IndexFunc(owner.Instances, func(i gpu.Instance) bool { return i.UUID == u.UUID })
		units[i].instance = &owner.Instances[at]
		var ret nvml.Return
		if units[i].part, ret = d.api.DeviceGetHandleByUUID(u.UUID); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("open MIG instance %s: %w", u.UUID, ret)
		}
	}
	return units, nil
}

// read reads one unit. An instance has memory of its own; heat, power, clocks and errors are those of its GPU. lost is true when the GPU does
// not answer any more.
func (u unit) read() (r gpu.Reading, lost bool) {
	r = gpu.Reading{UUID: u.UUID, Index: u.GPU, Model: u.Model}
	if u.device == nil {
		return r, true
	}
	m, ret := u.part.GetMemoryInfo()
	if ret == nvml.ERROR_GPU_IS_LOST {
		return r, true
	}
	if ret == nvml.SUCCESS {
		r.Memory, r.MemoryUsed = int64(m.Total), int64(m.Used)
	}
	if u.instance == nil {
		if use, ret := u.device.GetUtilizationRates(); ret == nvml.SUCCESS {
			share := float64(use.Gpu) / 100
			r.Utilization = &share
		}
	}
	if t, ret := u.device.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Temperature = int(t)
	}
	if mw, ret := u.device.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Power = float64(mw) / 1000
	}
	if mw, ret := u.device.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		r.PowerLimit = float64(mw) / 1000
	}
	// Older drivers lack its successor, and to call what a library lacks ends the process.
	reasons, ret := u.device.GetCurrentClocksThrottleReasons()
	if ret == nvml.SUCCESS {
		r.Throttled = throttled(reasons)
	}
	if n, ret := u.device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		r.Corrected = int64(n)
	}
	if n, ret := u.device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		r.Uncorrected = int64(n)
	}
	if generation, ret := u.device.GetCurrPcieLinkGeneration(); ret == nvml.SUCCESS {
		if width, ret := u.device.GetCurrPcieLinkWidth(); ret == nvml.SUCCESS {
			r.PCIe = fmt.Sprintf("gen%d x%d", generation, width)
		}
	}
	return r, false
}

// throttled says why a GPU is slowed down.
func throttled(reasons uint64) []string {
	var all []string
	for _, one := range []struct {
		mask uint64
		word string
	}{
		{nvml.ClocksEventReasonSwPowerCap, gpu.ThrottlePower},
		{nvml.ClocksEventReasonSwThermalSlowdown | nvml.ClocksThrottleReasonHwThermalSlowdown, gpu.ThrottleThermal},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, gpu.ThrottleBrake},
		{nvml.ClocksEventReasonSyncBoost, gpu.ThrottleSync},
	} {
		if reasons&one.mask != 0 {
			all = append(all, one.word)
		}
	}
	return all
}
