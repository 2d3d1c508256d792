package agent

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/internal/metrics"
)

// trainerState is the relevant part of trainer_state.json, the TrainerState that the Trainer of transformers writes to each checkpoint.
type trainerState struct {
	GlobalStep int64             `json:"global_step"`
	MaxSteps   int64             `json:"max_steps"`
	LogHistory []json.RawMessage `json:"log_history"`
}

// readTrainerState reads the state from a checkpoint. The Trainer writes a loss that is not a number as NaN, which is not valid JSON.
func readTrainerState(path string) (trainerState, error) {
	var state trainerState
	raw, err := os.ReadFile(filepath.Join(path, "trainer_state.json"))
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal(metrics.Standard(raw), &state)
}

// trainerNotes returns the log of the Trainer up to a checkpoint, and then the step of the checkpoint itself.
func trainerNotes(_ *prepared, path string, _ int64) ([]metrics.Line, error) {
	state, err := readTrainerState(path)
	if err != nil {
		return nil, err
	}
	var lines []metrics.Line
	for _, raw := range state.LogHistory {
		if line, ok := metrics.Parse(raw); ok {
			lines = append(lines, line)
		}
	}
	last := metrics.Line{"step": float64(state.GlobalStep)}
	if state.MaxSteps > 0 {
		last["of"] = float64(state.MaxSteps)
	}
	return append(lines, last), nil
}

// lightningNotes returns the rows up to a checkpoint of the newest metrics.csv, and then the step of the checkpoint itself. Lightning's
// CSVLogger writes the file; it is the default logger if TensorBoard is not installed.
func lightningNotes(p *prepared, _ string, step int64) ([]metrics.Line, error) {
	var newest string
	var at time.Time
	for _, root := range []string{p.folder.Work, p.folder.Output, p.dirs.checkpoints} {
		found, err := filepath.Glob(filepath.Join(root, "lightning_logs", "version_*", "metrics.csv"))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
				newest, at = path, info.ModTime()
			}
		}
	}
	last := metrics.Line{"step": float64(step)}
	if newest == "" {
		return []metrics.Line{last}, nil
	}
	f, err := os.Open(newest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csvLines(f)
	lines = slices.DeleteFunc(lines, func(l metrics.Line) bool {
		at, ok := l.Step()
		return !ok || at > step
	})
	return append(lines, last), err
}

// csvLines reads a table whose first row names the columns. It skips fields that are not numbers, and ends at a row that is still being
// written.
func csvLines(r io.Reader) ([]metrics.Line, error) {
	in := csv.NewReader(r)
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	var lines []metrics.Line
	for err == nil {
		var row []string
		if row, err = in.Read(); err != nil {
			break
		}
		line := metrics.Line{}
		for i, name := range header {
			if v, err := strconv.ParseFloat(row[i], 64); err == nil {
				line[name] = v
			}
		}
		for _, name := range []string{"train_loss", "train_loss_step"} {
			if loss, ok := line[name]; ok && !slices.Contains(header, "loss") {
				line["loss"] = loss
				break
			}
		}
		lines = append(lines, line)
	}
	if parse := (*csv.ParseError)(nil); errors.Is(err, io.EOF) || errors.As(err, &parse) {
		err = nil
	}
	return lines, err
}

// feed appends what a framework has recorded to the metrics, each step once. It does nothing if the script writes metrics itself.
func (m *follower) feed(noted []metrics.Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started && !m.fed {
		return nil
	}
	var lines []byte
	to := m.fedTo
	for _, line := range noted {
		step, ok := line.Step()
		if !ok || step <= m.fedTo {
			continue
		}
		numbers := make(map[string]metrics.Number, len(line))
		for name, v := range line {
			numbers[name] = metrics.Number(v)
		}
		text, err := json.Marshal(numbers)
		if err != nil {
			return err
		}
		lines, to = append(append(lines, text...), '\n'), max(to, step)
	}
	if len(lines) == 0 {
		return nil
	}
	f, err := os.OpenFile(m.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(lines)
	if err = errors.Join(err, f.Close()); err == nil {
		m.fed, m.fedTo = true, to
	}
	return err
}
