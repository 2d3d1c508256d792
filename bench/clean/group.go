package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
)

// watchEvery is the time between two looks.
const watchEvery = 100 * time.Millisecond

// watchGroup looks at how much memory the processes of a group have together, until the function it returns is called, which returns the most
// that was seen, in MiB. What they share counts for each of them.
func watchGroup(leader int) (stop func() float64) {
	ctx, quit := context.WithCancel(context.Background())
	peak := make(chan float64)
	go func() {
		var most float64
		for range poll.Every(ctx, watchEvery) {
			most = max(most, groupMemory(leader))
		}
		peak <- most
	}()
	return func() float64 {
		quit()
		return <-peak
	}
}

// groupMemory is what the processes of a group have in memory, in MiB.
func groupMemory(leader int) float64 {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	pages := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind the program's name
		fields := strings.Fields(rest)
		if len(fields) > 21 && fields[2] == strconv.Itoa(leader) {
			n, _ := strconv.Atoi(fields[21])
			pages += n
		}
	}
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}
