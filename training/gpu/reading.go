package gpu

import "time"

// Reading is the state of one unit. What the driver does not say is zero, but for Utilization, of which zero means something.
type Reading struct {
	UUID        string `json:"uuid"`
	Index       int    `json:"index"`
	Model       string `json:"model,omitempty"`
	Memory      int64  `json:"memory,omitempty"` // bytes there are
	MemoryUsed  int64  `json:"memory_used,omitempty"`
	Temperature int    `json:"temperature,omitempty"` // °C
	// Utilization is the share of the last moments in which something was computed, 0 to 1. nil: the driver does not say, as of instances.
	Utilization *float64 `json:"utilization,omitempty"`
	Power       float64  `json:"power,omitempty"` // watts
	PowerLimit  float64  `json:"power_limit,omitempty"`
	// Throttled are the reasons for which it is slowed down: some of the Throttle constants.
	Throttled []string `json:"throttled,omitempty"`
	// Corrected and Uncorrected count errors of its memory since the driver was loaded.
	Corrected   int64 `json:"ecc_corrected,omitempty"`
	Uncorrected int64 `json:"ecc_uncorrected,omitempty"`
	// PCIe is the link to the CPU as it is now, such as "gen4 x16".
	PCIe string `json:"pcie,omitempty"`
}

// MeanUtilization is how busy GPUs are on average, 0 to 1, as far as the driver says; known is false where it says so of none.
func MeanUtilization(readings []Reading) (share float64, known bool) {
	n := 0
	for _, r := range readings {
		if r.Utilization != nil {
			share += *r.Utilization
			n++
		}
	}
	return share / float64(max(1, n)), n > 0
}

// Reasons for which a GPU runs slower than it could. That it is idle, or was set so, is none.
const (
	ThrottlePower   = "power"   // at its power limit
	ThrottleThermal = "thermal" // too hot
	ThrottleBrake   = "brake"   // the machine's power supply asks for it
	ThrottleSync    = "sync"    // kept at the pace of another GPU
)

// Report is one line of what sluice-gpu watch prints: either readings of all units that are watched, or an event.
type Report struct {
	At       time.Time `json:"at"`
	Readings []Reading `json:"readings,omitempty"`
	Event    *Event    `json:"event,omitempty"`
}
