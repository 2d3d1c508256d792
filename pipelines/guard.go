package pipelines

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
)

// guardEvery is the time between two looks at the memory in use.
const guardEvery = 50 * time.Millisecond

// gcPercent lets a heap of which little is alive grow to some times of that before it is collected: rows are garbage soon.
const gcPercent = 400

// guardMemory tells the collector when to collect, and cancels the job with an error that says so when the process gets larger than the
// limit. A limit on the address space would not do: Go reserves far more of it than it uses.
func guardMemory(limit int64, key string, cancel context.CancelCauseFunc) (stop func()) {
	debug.SetGCPercent(gcPercent)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	told := int64(0)
	look := func() {
		used, files := residentBytes()
		if used > limit {
			cancel(fault.Errorf(fault.User, "cleaning needs more memory than its limit of %d MiB; increase %s", limit>>20, key))
		}
		metrics.Read(live)
		if heap := collectAt(limit-files, int64(live[0].Value.Uint64())); heap != told {
			debug.SetMemoryLimit(heap)
			told = heap
		}
	}
	look()
	return every(guardEvery, look)
}

// collectAt is how large the heap may become before it is collected, given the room there is for it and how much of it was alive when it
// was collected last: two fifths of the room, since what is not alive would be in memory for nothing; half as much again as is alive where
// that is more, since to collect all the time takes all the time; and never so much that what the collector does not know of has no place.
func collectAt(room, live int64) int64 {
	return min(max(room/5*2, live/2*3), max(room, 0)/10*8)
}

// residentBytes is the memory this process has in use, and how much of that is the program's own file, of which the collector does not
// know. Both are 0 when it is not known.
func residentBytes() (all, files int64) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0, 0
	}
	page := int64(os.Getpagesize())
	return resident * page, shared * page
}
