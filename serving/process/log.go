package process

import (
	"github.com/sluiceml/sluice/internal/logfile"
	"github.com/sluiceml/sluice/internal/proc"
)

// maxLog bounds the current log of a release, and the one before it.
const maxLog = 16 << 20

// output is the log and its end. A log that cannot be written ends no process: what it prints is lost then.
type output struct {
	log  *logfile.File
	tail *proc.Tail
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	_, _ = o.log.Write(b) // as above
	return o.tail.Write(b)
}
