package gpu

import "fmt"

// XIDs that are also concluded from what a GPU answers, or does not.
const (
	XIDLost     = 79  // it has fallen off the bus
	XIDRecovery = 154 // the driver says that it needs something else than before
)

// Event is an error of a GPU that the driver reports: an XID.
type Event struct {
	XID   int    `json:"xid"`
	UUID  string `json:"uuid"` // of the unit
	Index int    `json:"index"`
	// Recovery is what the driver says the GPU needs since, as in GPU.
	Recovery string `json:"recovery,omitempty"`
}

// Action is what is to be done at once about an XID.
type Action string

// The actions of NVIDIA's XID catalog, as far as they differ for who runs trainings.
const (
	ActionIgnore      Action = "ignore"
	ActionRestartApp  Action = "restart_app"
	ActionReset       Action = "reset"       // reset the GPU
	ActionReboot      Action = "reboot"      // restart the machine
	ActionInvestigate Action = "investigate" // the catalog tells to look at what else was reported
)

// xid is a line of the catalog.
type xid struct {
	description string
	action      Action
}

// catalog is what NVIDIA's XID catalog (docs.nvidia.com/deploy/xid-errors, for Ampere and newer) says of the XIDs that these GPUs report, but
// for those of video and copy engines, see describe. Of 48 it says to reset when nothing else was reported, and that only a reset clears it.
var catalog = map[int]xid{
	8:           {"GPU stopped processing", ActionRestartApp},
	11:          {"invalid or corrupted push buffer stream", ActionRestartApp},
	13:          {"graphics engine exception", ActionRestartApp},
	14:          {"injected error", ActionIgnore},
	25:          {"invalid push buffer stream", ActionRestartApp},
	31:          {"GPU memory page fault", ActionRestartApp},
	32:          {"invalid or corrupted push buffer stream", ActionRestartApp},
	37:          {"driver firmware error", ActionIgnore},
	38:          {"driver firmware error", ActionIgnore},
	43:          {"GPU stopped processing", ActionIgnore},
	44:          {"fault during context switch", ActionIgnore},
	45:          {"preemptive cleanup after an earlier error", ActionInvestigate},
	46:          {"GPU stopped processing", ActionReset},
	48:          {"double-bit ECC error", ActionReset},
	54:          {"auxiliary power is not connected", ActionInvestigate},
	62:          {"internal micro-controller halt", ActionReset},
	63:          {"GPU memory remapping event", ActionIgnore},
	64:          {"GPU memory remapping failure", ActionReset},
	66:          {"illegal access by the driver", ActionIgnore},
	67:          {"illegal access by the driver", ActionIgnore},
	69:          {"graphics engine class error", ActionRestartApp},
	74:          {"NVLink error", ActionInvestigate},
	XIDLost:     {"GPU has fallen off the bus", ActionReboot},
	80:          {"corrupted data sent to the GPU", ActionRestartApp},
	92:          {"high single-bit ECC error rate", ActionIgnore},
	93:          {"InfoROM wear limit exceeded", ActionIgnore},
	94:          {"contained memory error", ActionRestartApp},
	95:          {"uncontained memory error", ActionReset},
	106:         {"SMBPBI test message", ActionIgnore},
	107:         {"SMBPBI test message", ActionIgnore},
	109:         {"context switch timeout", ActionReset},
	110:         {"security fault", ActionReset},
	119:         {"GSP RPC timeout", ActionReset},
	120:         {"GSP error", ActionReset},
	121:         {"C2C error", ActionIgnore},
	136:         {"link training failed", ActionReset},
	137:         {"NVLink privilege error", ActionIgnore},
	140:         {"unrecovered ECC error", ActionReset},
	141:         {"CUDA fast path error", ActionIgnore},
	143:         {"GPU initialization error", ActionReset},
	144:         {"NVLink SAW error", ActionInvestigate},
	145:         {"NVLink RLW error", ActionInvestigate},
	146:         {"NVLink TLW error", ActionInvestigate},
	147:         {"NVLink TREX error", ActionInvestigate},
	148:         {"NVLink control error", ActionInvestigate},
	149:         {"NVLink NETIR error", ActionInvestigate},
	150:         {"NVLink MSE error", ActionInvestigate},
	151:         {"key rotation error", ActionReboot},
	XIDRecovery: {"GPU recovery action changed", ActionInvestigate},
	155:         {"NVLink software-defined error", ActionReset},
	156:         {"resource retirement", ActionReset},
	157:         {"resource retirement failure", ActionIgnore},
	158:         {"GPU fatal timeout", ActionReset},
	160:         {"channel retirement", ActionIgnore},
	161:         {"channel retirement failure", ActionIgnore},
}

// engines are the XIDs of single copy, video and image engines: the program that used one has to be started again.
var engines = []struct {
	first, last int
	description string
}{
	{39, 41, "copy engine exception"},
	{60, 60, "video processor exception"},
	{68, 68, "video decoder exception"},
	{70, 72, "copy engine error"},
	{75, 77, "copy engine error"},
	{82, 82, "image decoder error"},
	{83, 84, "video decoder error"},
	{85, 85, "copy engine error"},
	{86, 86, "optical flow exception"},
	{88, 89, "video decoder error"},
	{96, 98, "video decoder error"},
	{99, 105, "image decoder error"},
	{126, 135, "copy engine error"},
	{139, 139, "optical flow error"},
}

// describe looks an XID up. One that the catalog does not have is to be investigated.
func describe(number int) xid {
	if known, ok := catalog[number]; ok {
		return known
	}
	for _, e := range engines {
		if number >= e.first && number <= e.last {
			return xid{e.description, ActionRestartApp}
		}
	}
	return xid{"not in NVIDIA's catalog", ActionInvestigate}
}

// Action is what is to be done: what the driver says, where it says that the GPU needs something, else what the catalog says of the XID.
func (e Event) Action() Action {
	switch e.Recovery {
	case RecoveryReset, RecoveryDrain:
		return ActionReset
	case RecoveryReboot:
		return ActionReboot
	}
	return describe(e.XID).action
}

// Unusable reports whether the GPU cannot be relied on until it, or its machine, has been reset.
func (e Event) Unusable() bool {
	action := e.Action()
	return action == ActionReset || action == ActionReboot
}

// String says it in one line: "GPU 3 (GPU-4a0b...): XID 79, GPU has fallen off the bus: the machine needs a restart".
func (e Event) String() string {
	s := fmt.Sprintf("GPU %d (%s): XID %d, %s", e.Index, e.UUID, e.XID, describe(e.XID).description)
	switch e.Action() {
	case ActionReset:
		s += ": the GPU needs a reset"
	case ActionReboot:
		s += ": the machine needs a restart"
	case ActionIgnore, ActionRestartApp, ActionInvestigate:
	}
	return s
}
