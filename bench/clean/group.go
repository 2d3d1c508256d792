package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watched is a process group whose memory is looked at while it runs.
type watched struct {
	quit chan struct{}
	peak chan float64
}

// watchEvery is the time between two looks.
const watchEvery = 100 * time.Millisecond

// watchGroup looks at how much memory the processes of a group have together. What they share counts for each of them.
func watchGroup(leader int) watched {
	w := watched{quit: make(chan struct{}), peak: make(chan float64)}
	go func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		var peak float64
		for {
			select {
			case <-ticker.C:
				peak = max(peak, groupMemory(leader))
			case <-w.quit:
				w.peak <- peak
				return
			}
		}
	}()
	return w
}

// stop returns the most memory that was seen, in MiB.
func (w watched) stop() float64 {
	close(w.quit)
	return <-w.peak
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
