package stepargs

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
)

// progressFile is beside the file with the step's spec, and maxProgress how long it may be in bytes: the agent passes on what it says.
const (
	progressFile = "progress.json"
	maxProgress  = 4 << 10
)

// Progress is how far the program is with its work, in one line for people.
type Progress struct {
	Text string `json:"text"`
	// Share done, 0 to 1; negative when unknown.
	Share float64 `json:"share"`
}

// WriteProgress tells the agent how far the program is that has been given args after PROGRAM.
func WriteProgress(args []string, p Progress) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := filepath.Join(filepath.Dir(args[0]), progressFile)
	if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file) // the agent may be reading it
}

// ReadProgress returns what the program has told last for whose step Write has put a file into dir; false before it has told anything.
func ReadProgress(dir string) (p Progress, ok bool) {
	file, err := os.Open(filepath.Join(dir, progressFile))
	if err != nil {
		return p, false
	}
	defer file.Close()
	err = json.NewDecoder(io.LimitReader(file, maxProgress)).Decode(&p)
	return p, err == nil
}
