package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Trace says when spot was available for one kind of machine in one place.
type Trace struct {
	Zone     string `json:"zone,omitempty"`
	Instance string `json:"instance,omitempty"`
	// GapSeconds is how long one character of a window stands for.
	GapSeconds float64  `json:"gap_seconds"`
	Windows    []Window `json:"windows"`
}

// Window is one part of a trace: a character for each interval, 1 if spot was available and 0 if not.
type Window struct {
	Start     int    `json:"start,omitempty"`
	Available string `json:"available"`
}

// maxTrace bounds a trace's document.
const maxTrace = 64 << 20

// recording is a file of skypilot-org/spot-traces: how many instances there were at each look.
type recording struct {
	Metadata struct {
		GapSeconds float64 `json:"gap_seconds"`
	} `json:"metadata"`
	Data []int `json:"data"`
}

// ReadTrace reads and checks a trace in JSON. A file of skypilot-org/spot-traces is cut into windows that follow on one another, each as long
// as within; there is spot in it while it counts as many instances as there are nodes, or as it ever does where it was not looked for so many.
func ReadTrace(r io.Reader, nodes int, within time.Duration) (Trace, error) {
	var t Trace
	raw, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	switch {
	case err != nil:
		return t, err
	case len(raw) > maxTrace:
		return t, fmt.Errorf("a trace must not be larger than %d MiB", maxTrace>>20)
	}
	var recorded recording
	if err := errors.Join(json.Unmarshal(raw, &t), json.Unmarshal(raw, &recorded)); err != nil {
		return t, fmt.Errorf("a trace must be a JSON object with gap_seconds and windows, or with metadata and data as those of skypilot-org/spot-traces: %w", err)
	}
	if len(recorded.Data) > 0 {
		t.GapSeconds = recorded.Metadata.GapSeconds
		t.Windows = recorded.windows(nodes, within)
	}
	switch gap := t.GapSeconds; {
	case !(gap >= 1 && gap <= 86400):
		return t, fmt.Errorf("gap_seconds is %g; it must be from 1 to 86400", gap)
	case len(t.Windows) == 0:
		return t, errors.New("there are neither windows nor data")
	}
	for i, w := range t.Windows {
		if w.Available == "" || strings.Trim(w.Available, "01") != "" {
			return t, fmt.Errorf("windows[%d].available must be one or more of the characters 0 and 1", i)
		}
	}
	return t, nil
}

// Gap is how long one character of a window stands for.
func (t Trace) Gap() time.Duration { return time.Duration(t.GapSeconds * float64(time.Second)) }

// windows cuts a recording. What is left at the end is a window where there is no whole one.
func (r recording) windows(nodes int, within time.Duration) []Window {
	enough := max(1, min(nodes, slices.Max(r.Data)))
	available := make([]byte, len(r.Data))
	for i, n := range r.Data {
		if available[i] = '0'; n >= enough {
			available[i] = '1'
		}
	}
	length := len(available)
	if gap := r.Metadata.GapSeconds; gap > 0 {
		length = min(length, max(1, int(math.Ceil(within.Seconds()/gap))))
	}
	var all []Window
	for start := 0; start+length <= len(available); start += length {
		all = append(all, Window{Start: start, Available: string(available[start : start+length])})
	}
	return all
}
