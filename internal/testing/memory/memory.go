// Package memory measures what tests allocate.
package memory

import "runtime"

// Allocated is how many bytes f allocates, freed ones included. Other goroutines count, too.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
