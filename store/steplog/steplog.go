// Package steplog keeps in the store what the programs of steps print, so that it can be read while they run and after their machines have
// gone.
//
// Each node of a generation of a gang writes chunks, JSON records of some dozens of kilobytes. An attempt of a step that a worker executes
// counts as a generation with one node and one rank. Only the newest chunk of a node is ever replaced, by one that goes on from it; a reader
// that has read some of its entries finds them again in their place.
//
// Keys: logs/<run>/<step>/g<generation>/n<node>/<time>-<number>.json, where time, in milliseconds, is when the writer began.
package steplog

import (
	"fmt"
	"path"
	"time"

	"github.com/sluiceml/sluice/store"
)

const (
	// NoRank is the rank of output that is not from a rank, such as that of a launcher.
	NoRank = -1
	// noteRank is that of notes about the log itself, which belong to each rank's. Readers get NoRank.
	noteRank = -2
)

// Source identifies a node that prints.
type Source struct {
	Run, Step        string // Step may be an instance
	Generation, Node int
}

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

func (s Source) prefix() string {
	return path.Join(store.LogsPrefix, s.Run, s.Step, fmt.Sprintf("g%d/n%d", s.Generation, s.Node)) + "/"
}
