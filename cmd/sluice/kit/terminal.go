package kit

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// FrameEvery spaces frames on a terminal.
const FrameEvery = 150 * time.Millisecond

// TerminalSize returns a function that asks for the size of the terminal that a stream is. One that does not say is taken for the
// smallest that there are.
func TerminalSize(w io.Writer) func() (width, height int) {
	return func() (int, int) {
		if f, ok := w.(*os.File); ok {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}
}
