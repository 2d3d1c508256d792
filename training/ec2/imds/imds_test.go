package imds_test

import (
	"testing"
	"time"

	"github.com/sluiceml/sluice/training/ec2/imds"
	"github.com/sluiceml/sluice/training/ec2/imds/imdstest"
)

func TestInterruption(t *testing.T) {
	server := imdstest.Start(t, nil)
	c := imds.New(server.URL)
	if _, ok, err := c.Interruption(t.Context()); ok || err != nil {
		t.Fatalf("before the notice: %v, %v", ok, err)
	}
	server.Expire() // the client has to begin another session
	want := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)
	server.Interrupt(want)
	if got, ok, err := c.Interruption(t.Context()); !got.Equal(want) || !ok || err != nil {
		t.Errorf("after the notice: %v, %v, %v, want %v", got, ok, err, want)
	}
}

func TestInterruptionThatCannotBeRead(t *testing.T) {
	server := imdstest.Start(t, map[string]string{"spot/instance-action": "<html>"})
	if _, ok, err := imds.New(server.URL).Interruption(t.Context()); ok || err == nil {
		t.Errorf("got %v, %v, want an error", ok, err)
	}
}

func TestNoService(t *testing.T) {
	server := imdstest.Start(t, nil)
	server.Close()
	if _, ok, err := imds.New(server.URL).Interruption(t.Context()); ok || err == nil {
		t.Errorf("got %v, %v, want an error", ok, err)
	}
}
