//go:build cgo

// Package gputest is a machine with eight NVIDIA A100 and no hardware: go-nvml's own mock of a DGX A100, given a topology, readings, memory
// errors and events that a test sets.
package gputest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// Machine is the machine. Its GPUs have the UUIDs GPU-0 to GPU-7; 0 to 3 are on the first CPU, 4 to 7 on the second, and each has 12 NVLinks
// to the switches.
type Machine struct {
	*dgxa100.Server
	events chan nvml.EventData

	mu     sync.Mutex
	states [8]State
}

// State is what is read of a GPU.
type State struct {
	Utilization uint32 // percent
	MemoryUsed  uint64
	Temperature uint32
	Power       uint32 // milliwatts
	Reasons     uint64 // for which it is slowed down
	Corrected   uint64 // errors of its memory
	Uncorrected uint64
	Recovery    nvml.DeviceGpuRecoveryAction
	Lost        bool // it has fallen off the bus
}

// New makes the machine.
func New() *Machine {
	m := &Machine{Server: dgxa100.New(), events: make(chan nvml.EventData, 16)}
	for i := range m.Devices {
		m.states[i] = State{Utilization: 90, MemoryUsed: 30 << 30, Temperature: 61, Power: 350_000}
		m.equip(i)
	}
	m.DeviceGetHandleByUUIDFunc = m.byUUID
	m.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{WaitFunc: m.wait, FreeFunc: func() nvml.Return { return nvml.SUCCESS }}, nvml.SUCCESS
	}
	return m
}

// Device is GPU i.
func (m *Machine) Device(i int) *dgxa100.Device { return m.Devices[i].(*dgxa100.Device) }

// Set changes what is read of GPU i.
func (m *Machine) Set(i int, change func(*State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.states[i])
}

func (m *Machine) state(i int) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[i]
}

// Raise has the driver report an XID of GPU i, of all of it.
func (m *Machine) Raise(i int, xid uint64) { m.RaiseIn(i, xid, 0xFFFFFFFF, 0xFFFFFFFF) }

// RaiseIn has it report one of an instance.
func (m *Machine) RaiseIn(i int, xid uint64, gpuInstance, computeInstance uint32) {
	m.events <- nvml.EventData{
		Device: m.Devices[i], EventType: nvml.EventTypeXidCriticalError, EventData: xid, GpuInstanceId: gpuInstance, ComputeInstanceId: computeInstance,
	}
}

func (m *Machine) wait(milliseconds uint32) (nvml.EventData, nvml.Return) {
	select {
	case e := <-m.events:
		return e, nvml.SUCCESS
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return nvml.EventData{}, nvml.ERROR_TIMEOUT
	}
}

// busID is the address of GPU i, as NVML writes it.
func busID(i int) (id [32]uint8) {
	copy(id[:], fmt.Sprintf("00000000:%02X:00.0", 0x10+i))
	return id
}

// equip gives GPU i what the mock lacks.
func (m *Machine) equip(i int) {
	d := m.Device(i)
	d.UUID = fmt.Sprintf("GPU-%d", i)
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{BusId: busID(i)}, nvml.SUCCESS }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		j, _ := other.GetIndex()
		switch {
		case i/2 == j/2:
			return nvml.TOPOLOGY_MULTIPLE, nvml.SUCCESS
		case i/4 == j/4:
			return nvml.TOPOLOGY_NODE, nvml.SUCCESS
		}
		return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
	}
	m.wire(i, 12)
	d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		s := m.state(i)
		if s.Lost {
			return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST
		}
		return nvml.Memory{Total: d.MemoryInfo.Total, Used: s.MemoryUsed, Free: d.MemoryInfo.Total - s.MemoryUsed}, nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: m.state(i).Utilization}, nvml.SUCCESS
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return m.state(i).Temperature, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return m.state(i).Power, nvml.SUCCESS }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 400_000, nvml.SUCCESS }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return m.state(i).Reasons, nvml.SUCCESS }
	d.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		if kind == nvml.MEMORY_ERROR_TYPE_UNCORRECTED {
			return m.state(i).Uncorrected, nvml.SUCCESS
		}
		return m.state(i).Corrected, nvml.SUCCESS
	}
	d.GetCurrPcieLinkGenerationFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
	d.GetCurrPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
	d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		values[0].Value[0] = byte(m.state(i).Recovery)
		return nvml.SUCCESS
	}
}

// wire gives GPU i NVLinks to the switches.
func (m *Machine) wire(i, links int) {
	d := m.Device(i)
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link < links {
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
	}
	d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
	}
}

// Bridge takes the switches away and joins pairs of GPUs by four NVLinks each, as bridges between cards do.
func (m *Machine) Bridge(pairs ...[2]int) {
	for i := range m.Devices {
		m.wire(i, 0)
	}
	for _, pair := range pairs {
		for k, i := range pair {
			m.wire(i, 4)
			d := m.Device(i)
			d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
				return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
			}
			d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
				return nvml.PciInfo{BusId: busID(pair[1-k])}, nvml.SUCCESS
			}
		}
	}
}

// Divide puts GPU i in MIG mode and makes instances of it, of two profiles in turn: 1g.5gb and 3g.20gb.
func (m *Machine) Divide(i, instances int) {
	d := m.Device(i)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(at int) (nvml.Device, nvml.Return) {
		if at >= instances {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return m.instance(i, at), nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
}

// instance is one of a GPU that was divided; its GPU instance has the ID at+1, its compute instance 0.
func (m *Machine) instance(i, at int) nvml.Device {
	profile := []nvml.GpuInstanceProfileInfo{
		dgxa100.MIGProfiles.GpuInstanceProfiles[nvml.GPU_INSTANCE_PROFILE_1_SLICE], dgxa100.MIGProfiles.GpuInstanceProfiles[nvml.GPU_INSTANCE_PROFILE_3_SLICE],
	}[at%2]
	names := map[uint32]string{nvml.GPU_INSTANCE_PROFILE_1_SLICE: "1g.5gb", nvml.GPU_INSTANCE_PROFILE_3_SLICE: "3g.20gb"}
	return &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d-%d", i, at), nvml.SUCCESS },
		GetNameFunc: func() (string, nvml.Return) { return m.Device(i).Name + " MIG " + names[profile.Id], nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: profile.MemorySizeMB << 20, Used: 1 << 30}, nvml.SUCCESS
		},
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return at + 1, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
	}
}

func (m *Machine) byUUID(uuid string) (nvml.Device, nvml.Return) {
	for i := range m.Devices {
		if m.Device(i).UUID == uuid {
			return m.Devices[i], nvml.SUCCESS
		}
		if m.Device(i).MigMode != nvml.DEVICE_MIG_ENABLE {
			continue
		}
		for at := range 7 {
			part, ret := m.Device(i).GetMigDeviceHandleByIndex(at)
			if ret != nvml.SUCCESS {
				break
			}
			if id, _ := part.GetUUID(); id == uuid {
				return part, nvml.SUCCESS
			}
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

// UUIDs are those of the GPUs with these indexes.
func UUIDs(indexes ...int) []string {
	uuids := slices.Repeat([]string{""}, len(indexes))
	for i, index := range indexes {
		uuids[i] = fmt.Sprintf("GPU-%d", index)
	}
	return uuids
}
