package run

import (
	"time"

	"github.com/sluiceml/sluice/internal/human"
)

// silenceLimit is how long a run is not heard of before that is worth a note.
const silenceLimit = 10 * time.Second

// silence keeps since when nothing was heard of a run.
type silence struct {
	heard time.Time
	said  bool
}

// note is what is to be said after a question that was answered, or was not; empty for nothing. Each silence is said once, and its end.
func (s *silence) note(answered bool, now time.Time) string {
	silent := now.Sub(s.heard)
	if answered {
		s.heard, s.said = now, false
	}
	switch {
	case silent < silenceLimit, s.said:
		return ""
	case answered:
		return "Temporal answers again, after " + human.Duration(silent)
	}
	s.said = true
	return "no answer about the run for " + human.Duration(silent) +
		": Temporal, or the worker that executes the run, is stopped, busy or unreachable; retrying until it answers\n  help: `sluice doctor` shows whether Temporal answers and how much disk is free"
}
