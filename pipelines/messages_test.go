package pipelines

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

// A process whose message is too long, or not JSON, is read to its end: otherwise it would wait for a reader for ever.
func TestReadMessagesDrains(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"too long": {strings.Repeat("x", maxMessage+1), bufio.ErrTooLong},
		"not JSON": {"{", nil},
	} {
		r, w := io.Pipe()
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(w, tt.text+"\n"+strings.Repeat("{}\n", 100_000))
			wrote <- errors.Join(err, w.Close())
		}()
		_, err := readMessages(r, listener{})
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want an error", name, err)
		}
		r.Close()
		if err := <-wrote; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
