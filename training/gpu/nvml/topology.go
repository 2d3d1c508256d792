//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu"
)

// paths are NVML's levels of the PCIe topology.
var paths = map[nvml.GpuTopologyLevel]gpu.Path{
	nvml.TOPOLOGY_INTERNAL:   gpu.PathBoard,
	nvml.TOPOLOGY_SINGLE:     gpu.PathSwitch,
	nvml.TOPOLOGY_MULTIPLE:   gpu.PathSwitches,
	nvml.TOPOLOGY_HOSTBRIDGE: gpu.PathHostBridge,
	nvml.TOPOLOGY_NODE:       gpu.PathNode,
	nvml.TOPOLOGY_SYSTEM:     gpu.PathSystem,
}

// links says of each pair of GPUs how they are connected. What cannot be asked is left out of it: a virtual machine may not show the bus.
func links(devices []nvml.Device, gpus []gpu.GPU) []gpu.Link {
	ends := make([]nvlinks, len(gpus))
	for i, g := range gpus {
		ends[i] = nvlinksOf(devices[g.Index])
	}
	var all []gpu.Link
	for i, a := range gpus {
		for j, b := range gpus[i+1:] {
			l := gpu.Link{A: a.Index, B: b.Index, NVLinks: ends[i].peers[b.PCI] + min(ends[i].switches, ends[i+1+j].switches)}
			if level, ret := devices[a.Index].GetTopologyCommonAncestor(devices[b.Index]); ret == nvml.SUCCESS {
				l.Path = paths[level]
			}
			all = append(all, l)
		}
	}
	return all
}

// nvlinks are where the NVLinks of a GPU end that are up.
type nvlinks struct {
	peers map[string]int // other GPUs, by their address on the bus
	// switches counts those that end at a switch, which joins all GPUs that have such.
	switches int
}

func nvlinksOf(device nvml.Device) nvlinks {
	found := nvlinks{peers: map[string]int{}}
	for link := range nvml.NVLINK_MAX_LINKS {
		if state, ret := device.GetNvLinkState(link); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if kind, ret := device.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			found.switches++
			continue
		}
		if pci, ret := device.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			found.peers[busID(pci)]++
		}
	}
	return found
}
