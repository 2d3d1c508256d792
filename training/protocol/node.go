package protocol

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Files in a node's own folder, AgentConfig.Dir.
const (
	// NoticeFile appears when the node is going to be taken away: JSON, a NodeNotice.
	NoticeFile = "notice"
	// TrainingFile appears with the first training step of a generation, and says how many it has reported: a decimal number.
	TrainingFile = "training"
	// FaultFile appears when one of the node's GPUs cannot be relied on until it has been reset: JSON, a gpu.Event.
	FaultFile = "gpu-fault"
)

// WriteFile writes v to a file as JSON, whole or not at all, also when the machine dies: it may be read after a restart.
func WriteFile(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, raw, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

// NodeNotice is the content of NoticeFile.
type NodeNotice struct {
	Until time.Time `json:"until"`
}
