package view

import (
	"io"
	"time"
)

// Event writes one line of the JSON form of a run's progress: what happened, when, and the fields of its data.
func Event(w io.Writer, event string, data any) error {
	line := struct {
		Event string    `json:"event"`
		Time  time.Time `json:"time"`
		Data  any       `json:"data"`
	}{event, time.Now().UTC(), data}
	return JSONLine(w, line)
}
