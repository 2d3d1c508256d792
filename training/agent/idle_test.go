package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// promise: docs/ec2.md#p-agent-idle
// promise: docs/kubernetes.md#p-pod-idle
func TestIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i := newIdleness()
		started := time.Now()
		go i.end(ctx, 15*time.Minute, cancel)
		time.Sleep(14 * time.Minute)
		i.add(1)
		time.Sleep(10 * time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it ended while it had something to do")
		}
		i.add(-1)
		<-ctx.Done()
		if took, want := time.Since(started), 10*time.Hour+29*time.Minute; took < want || took > want+15*time.Minute {
			t.Errorf("it ended after %v, want soon after %v", took, want)
		}
	})
}
