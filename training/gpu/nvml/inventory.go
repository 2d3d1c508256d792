//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

// Driver is the driver's library, opened.
type Driver struct {
	api nvml.Interface
	// sys is where the kernel's device files are: "/sys", but for tests.
	sys string
}

// ErrAbsent is that there is no driver on this machine, or none that runs.
var ErrAbsent = errors.New("no NVIDIA driver")

// Open opens the library; whoever did so closes it.
func Open(api nvml.Interface) (*Driver, error) {
	switch ret := api.Init(); ret {
	case nvml.SUCCESS:
		return &Driver{api: api, sys: "/sys"}, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("%w: its library libnvidia-ml.so.1 is not installed", ErrAbsent)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: its library is installed, but the kernel module is not loaded", ErrAbsent)
	default:
		return nil, fmt.Errorf("open NVIDIA's driver library: %w", ret)
	}
}

// Close closes the library.
func (d *Driver) Close() error { return failed("close NVIDIA's driver library", d.api.Shutdown()) }

// failed makes an error of what the library returned, if it is one.
func failed(doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}

// Inventory lists the GPUs with their instances and links.
func (d *Driver) Inventory() (gpu.Inventory, error) {
	inv, _, err := d.inspect()
	return inv, err
}

// inspect is the inventory, and the GPUs by their index; nil where one does not answer, which leaves the others as they are.
func (d *Driver) inspect() (gpu.Inventory, []nvml.Device, error) {
	inv := gpu.Inventory{Source: gpu.SourceNVML}
	inv.Driver, _ = d.api.SystemGetDriverVersion()
	if v, ret := d.api.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		inv.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	n, ret := d.api.DeviceGetCount()
	if err := failed("count the GPUs", ret); err != nil {
		return inv, nil, err
	}
	devices := make([]nvml.Device, n)
	for i := range devices {
		device, ret := d.api.DeviceGetHandleByIndex(i)
		err := failed("open it", ret)
		var g gpu.GPU
		if err == nil {
			g, err = d.describe(i, device)
		}
		if err != nil {
			inv.Lost = append(inv.Lost, gpu.Lost{Index: i, Reason: err.Error()})
			continue
		}
		devices[i] = device
		inv.GPUs = append(inv.GPUs, g)
	}
	switch {
	case n == 0:
		inv.Absent = "the NVIDIA driver is running but has no GPU"
	case len(inv.GPUs) == 0:
		inv.Absent = "none responds to the driver: " + inv.Lost[0].Reason
	}
	inv.Links = links(devices, inv.GPUs)
	return inv, devices, nil
}

// describe says what a GPU is. What some models do not tell is left out.
func (d *Driver) describe(index int, device nvml.Device) (gpu.GPU, error) {
	g := gpu.GPU{Index: index, NUMA: -1}
	var ret nvml.Return
	if g.UUID, ret = device.GetUUID(); ret != nvml.SUCCESS {
		return g, failed("ask for its UUID", ret)
	}
	if g.Model, ret = device.GetName(); ret != nvml.SUCCESS {
		return g, failed("ask for its model", ret)
	}
	if m, ret := device.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.Memory = int64(m.Total)
	}
	if major, minor, ret := device.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		g.Capability = fmt.Sprintf("%d.%d", major, minor)
	}
	if pci, ret := device.GetPciInfo(); ret == nvml.SUCCESS {
		g.PCI = busID(pci)
		g.NUMA = d.numaNode(g.PCI)
	}
	if mode, _, ret := device.GetEccMode(); ret == nvml.SUCCESS {
		g.ECC = mode == nvml.FEATURE_ENABLED
	}
	g.Recovery = recovery(device)
	if mode, _, ret := device.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
		g.MIG = true
		var err error
		if g.Instances, err = instances(device); err != nil {
			return g, err
		}
	}
	return g, nil
}

// instances are those of a GPU in MIG mode. Their places are numbered up to a maximum, with gaps.
func instances(device nvml.Device) ([]gpu.Instance, error) {
	most, ret := device.GetMaxMigDeviceCount()
	if err := failed("count its MIG instances", ret); err != nil {
		return nil, err
	}
	var all []gpu.Instance
	for i := range most {
		part, ret := device.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // an empty place
		}
		one := gpu.Instance{}
		if one.UUID, ret = part.GetUUID(); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("ask MIG instance %d for its UUID: %w", i, ret)
		}
		if one.Model, ret = part.GetName(); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("ask MIG instance %d for its profile: %w", i, ret)
		}
		if m, ret := part.GetMemoryInfo(); ret == nvml.SUCCESS {
			one.Memory = int64(m.Total)
		}
		one.GPUInstance, _ = part.GetGpuInstanceId()
		one.ComputeInstance, _ = part.GetComputeInstanceId()
		all = append(all, one)
	}
	return all, nil
}

// busID is an address on the bus as the kernel writes it, "0000:3b:00.0"; NVML gives the domain eight digits.
func busID(pci nvml.PciInfo) string {
	id := strings.ToLower(text(pci.BusId[:]))
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 {
		return domain[4:] + ":" + rest
	}
	return id
}

// text is a C string.
func text(raw []uint8) string {
	s, _, _ := strings.Cut(string(raw), "\x00")
	return s
}

// numaNode is the NUMA node of a device, -1 where there is only one or the kernel does not say.
func (d *Driver) numaNode(pci string) int {
	raw, err := os.ReadFile(filepath.Join(d.sys, "bus/pci/devices", pci, "numa_node"))
	if err != nil || pci == "" {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return -1
	}
	return node
}

// recovery is what the driver says a GPU needs, empty where it does not say: before 570.
func recovery(device nvml.Device) string {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := device.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return ""
	}
	switch nvml.DeviceGpuRecoveryAction(values[0].Value[0]) { // a small number, in the machine's order of bytes, which is little-endian
	case nvml.GPU_RECOVERY_ACTION_NONE:
		return gpu.RecoveryNone
	case nvml.GPU_RECOVERY_ACTION_GPU_RESET:
		return gpu.RecoveryReset
	case nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		return gpu.RecoveryReboot
	case nvml.GPU_RECOVERY_ACTION_DRAIN_P2P, nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
		return gpu.RecoveryDrain
	}
	return ""
}
