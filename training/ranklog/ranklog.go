// Package ranklog keeps in the store what the ranks of trainings print, so that it can be read while they run and after their nodes
// have gone.
//
// Each node of a generation writes chunks, JSON records of some dozens of kilobytes. Only the newest chunk of a node is ever replaced, by one
// that goes on from it; a reader that has read some of its entries finds them again in their place.
//
// Keys: logs/<run>/<step>/g<generation>/n<node>/<time>-<number>.json, where time, in milliseconds, is when the writer began.
package ranklog

import (
	"fmt"
	"path"
	"time"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

const (
	// NoRank is the rank of what no rank has printed, but a launcher, say.
	NoRank = -1
	// noteRank is that of notes about the log itself, which belong to each rank's. Readers hear NoRank.
	noteRank = -2
)

// chunk is a part of what one node has printed.
type chunk struct {
	// Nodes is how many nodes the generation has, and Ranks how many ranks each of them: rank r is on node r / Ranks.
	Nodes   int     `json:"nodes"`
	Ranks   int     `json:"ranks"`
	Entries []entry `json:"entries"`
}

// entry is what one rank has printed within a short time: often some lines, but it may begin and end within one.
type entry struct {
	At   time.Time `json:"at"`   // when its first byte came
	Rank int       `json:"rank"` // among the ranks of all nodes, NoRank or noteRank
	Text string    `json:"text"`
}

// StepPrefix is what the keys of the logs of a step, or of an instance, begin with.
func StepPrefix(run, step string) string { return path.Join(store.LogsPrefix, run, step) + "/" }

func nodePrefix(k training.Key, node int) string {
	return fmt.Sprintf("%sg%d/n%d/", StepPrefix(k.Run, k.Step), k.Generation, node)
}
