package gateway

import (
	"errors"
	"testing"

	"github.com/sluiceml/sluice/store"
)

func TestAGatewayThatIsNotThere(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	target := NewTarget(s, "m", "http://127.0.0.1:1", "http://127.0.0.1:1")
	defer target.Close()
	if _, err := target.Stats(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Stats = %v, want ErrUnavailable", err)
	}
}
