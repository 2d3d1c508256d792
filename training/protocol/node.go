package protocol

import "time"

// Files in a node's own folder, AgentConfig.Dir.
const (
	// NoticeFile appears when the node is going to be taken away: JSON, a NodeNotice.
	NoticeFile = "notice"
	// TrainingFile appears with the first training step of a generation.
	TrainingFile = "training"
	// FaultFile appears when one of the node's GPUs cannot be relied on until it has been reset: JSON, a gpu.Event.
	FaultFile = "gpu-fault"
)

// NodeNotice is the content of NoticeFile.
type NodeNotice struct {
	Until time.Time `json:"until"`
}
