// Package gpu describes GPUs: what a machine has and how it is connected, which of them go together, what is read of them, and which of their
// errors ask for what. It is data and pure functions; package gpu/nvml reads it from NVIDIA's driver, in a program of its own, and gpu/helper
// asks that program.
package gpu

import (
	"slices"

	"github.com/sluiceml/sluice/internal/gputype"
)

// Where an inventory comes from.
const (
	SourceNVML = "nvml"       // the driver's library, by sluice-gpu
	SourceSMI  = "nvidia-smi" // the driver's own tool, which tells less
)

// Format is the version of what sluice-gpu prints: Inventory and Report, as JSON. It changes when an older reader would misunderstand it.
const Format = 1

// Inventory is which GPUs a machine has, and how they are connected.
type Inventory struct {
	// Source is SourceNVML or SourceSMI; Driver is the version of NVIDIA's driver, and CUDA the newest version of CUDA that it knows.
	Source string `json:"source,omitempty"`
	Driver string `json:"driver,omitempty"`
	CUDA   string `json:"cuda,omitempty"`
	// Absent says why there are no GPUs, where there are none.
	Absent string `json:"absent,omitempty"`
	GPUs   []GPU  `json:"gpus,omitempty"`
	// Lost are the GPUs that the driver lists and that do not answer. Which they are is not known, but for their places.
	Lost []Lost `json:"lost,omitempty"`
	// Links has one entry for each pair of GPUs. It is empty where the source does not know.
	Links []Link `json:"links,omitempty"`
}

// Lost is a GPU that does not answer.
type Lost struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
}

// GPU is one of a machine's.
type GPU struct {
	Index  int    `json:"index"` // of the driver, in the order of the bus
	UUID   string `json:"uuid"`  // as CUDA_VISIBLE_DEVICES takes it
	Model  string `json:"model"` // such as "NVIDIA L4"
	Memory int64  `json:"memory,omitempty"`
	PCI    string `json:"pci,omitempty"` // its address on the bus
	// NUMA is the node of the machine's memory that is nearest; -1 where there is only one or it is not known.
	NUMA int `json:"numa"`
	// Capability is CUDA's compute capability, such as "8.0".
	Capability string `json:"capability,omitempty"`
	// ECC: errors of its memory are detected and corrected.
	ECC bool `json:"ecc,omitempty"`
	// MIG: it is divided into instances, and is used by these alone, if there are any.
	MIG       bool       `json:"mig,omitempty"`
	Instances []Instance `json:"instances,omitempty"`
	// Recovery is what the driver says the GPU needs: one of the Recovery constants, or empty where the driver does not say.
	Recovery string `json:"recovery,omitempty"`
}

// Instance is a part of a GPU in MIG mode.
type Instance struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"` // with the profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	Memory int64  `json:"memory,omitempty"`
	// GPUInstance and ComputeInstance are the driver's IDs, by which errors name the instance.
	GPUInstance     int `json:"gpu_instance"`
	ComputeInstance int `json:"compute_instance"`
}

// Recovery actions, of drivers from 570 on.
const (
	RecoveryNone   = "none"
	RecoveryReset  = "reset"
	RecoveryReboot = "reboot"
	RecoveryDrain  = "drain" // drain its peer-to-peer traffic, or everything, and reset
)

// Link is how two GPUs, A and B by index, are connected.
type Link struct {
	A int `json:"a"`
	B int `json:"b"`
	// NVLinks is how many NVLinks join them, directly or through switches.
	NVLinks int `json:"nvlinks,omitempty"`
	// Path is the way over PCIe between them.
	Path Path `json:"path,omitempty"`
}

// Path is the part of a machine that the way over PCIe between two GPUs crosses, by the names of nvidia-smi topo.
type Path string

// The paths, the shortest first.
const (
	PathBoard      Path = "board" // both are on one board
	PathSwitch     Path = "PIX"   // a single PCIe switch
	PathSwitches   Path = "PXB"   // several PCIe switches
	PathHostBridge Path = "PHB"   // the CPU's host bridge
	PathNode       Path = "NODE"  // between host bridges of one NUMA node
	PathSystem     Path = "SYS"   // between NUMA nodes
)

// Unit is what a process can be given: a whole GPU, or an instance of one in MIG mode.
type Unit struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Memory int64  `json:"memory,omitempty"`
	GPU    int    `json:"gpu"` // index of the GPU that it is, or is part of
	MIG    bool   `json:"mig,omitempty"`
}

// Owner returns the GPU that a unit is, or is part of, if the machine has it.
func (inv Inventory) Owner(uuid string) (GPU, bool) {
	i := slices.IndexFunc(inv.GPUs, func(g GPU) bool {
		return g.UUID == uuid || slices.ContainsFunc(g.Instances, func(i Instance) bool { return i.UUID == uuid })
	})
	if i < 0 {
		return GPU{}, false
	}
	return inv.GPUs[i], true
}

// Units lists what there is to be given, in the order of the bus.
func (inv Inventory) Units() []Unit {
	var units []Unit
	for _, g := range inv.GPUs {
		if !g.MIG {
			units = append(units, Unit{UUID: g.UUID, Model: g.Model, Memory: g.Memory, GPU: g.Index})
			continue
		}
		for _, i := range g.Instances {
			units = append(units, Unit{UUID: i.UUID, Model: i.Model, Memory: i.Memory, GPU: g.Index, MIG: true})
		}
	}
	return units
}

// OfTypes are the units of any of these types; all when there are none.
func OfTypes(units []Unit, types []string) []Unit {
	var fit []Unit
	for _, u := range units {
		if len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return gputype.Is(u.Model, t) }) {
			fit = append(fit, u)
		}
	}
	return fit
}

// HelperVariable names where sluice-gpu is, if not beside the program that asks.
const HelperVariable = "SLUICE_GPU"
