package protocol

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Files in a node's own folder, AgentConfig.Dir.
const (
	// NoticeFile appears when the node is going to be taken away: JSON, a NodeNotice.
	NoticeFile = "notice"
	// TrainingFile appears with the first training step of a generation.
	TrainingFile = "training"
	// FaultFile appears when one of the node's GPUs cannot be relied on until it has been reset: JSON, a gpu.Event.
	FaultFile = "gpu-fault"
)

// WriteFile writes v to a file as JSON, whole or not at all, also when the machine dies: it may be read after a restart.
func WriteFile(path string, v any) (err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+HalfWritten)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// HalfWritten ends the names of files that WriteFile has not written yet.
const HalfWritten = ".tmp"

// NodeNotice is the content of NoticeFile.
type NodeNotice struct {
	Until time.Time `json:"until"`
}
