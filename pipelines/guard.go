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

// guardEvery is the interval at which memory use is checked.
const guardEvery = 50 * time.Millisecond

// gcPercent is high because most of the heap is short-lived rows: a heap with little live data may grow to several times that size before
// it is collected.
const gcPercent = 400

// guardMemory adjusts the collector's memory limit, and cancels the job with an error that names the setting when the process exceeds its
// limit. A limit on the address space would not work: Go reserves far more of it than it uses.
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

// collectAt returns the heap size at which to collect, given the room for the heap and how much of it was live after the last collection.
// It is two fifths of the room, since more garbage than that brings nothing; or one and a half times the live heap if that is more, since
// otherwise the collector would run all the time; but at most four fifths of the room, to leave space for memory that the collector does
// not manage.
func collectAt(room, live int64) int64 {
	return min(max(room/5*2, live/2*3), max(room, 0)/10*8)
}

// residentBytes returns the resident memory of this process, and how much of it is file-backed, mainly the executable, which the collector
// does not count. Both are 0 if they are unknown.
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
