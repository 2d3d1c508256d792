package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalSize returns a function that asks for the size of the terminal that a stream is. One that does not say is taken for the
// smallest that there are.
func terminalSize(w io.Writer) func() (width, height int) {
	return func() (int, int) {
		if f, ok := w.(*os.File); ok {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}
}
