package local

import (
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// interruption is the end that is in store for a generation.
type interruption struct {
	node   int
	after  time.Duration // counted from the gang's first training step; 0 if it is counted in steps
	steps  int64
	notice time.Duration // 0: none is given
}

// interruptionOf derives a generation's interruption from its key alone, so that a run can be told again. The time, or the number of steps,
// lies within a quarter of the mean. Notice is given or not by the generation's number, such that among the first n interruptions the share
// without it is right to within one. The clock starts with the first step, because a market so bad that no generation gets past its start-up
// would show nothing.
func interruptionOf(in spec.Interruptions, k training.Key, nodes int) interruption {
	h := fnv.New64a()
	h.Write([]byte(k.String()))
	u := mix(h.Sum64())
	spread := float64(u>>11) / (1 << 53) // 0 to 1
	i := interruption{
		node:  int(u % uint64(nodes)),
		after: time.Duration(float64(in.MeanUp) * (0.75 + 0.5*spread)),
		steps: int64(float64(in.MeanSteps) * (0.75 + 0.5*spread)),
	}
	share, g := float64(in.WithoutNotice), float64(k.Generation)
	if math.Floor(g*share+1e-9) == math.Floor((g-1)*share+1e-9) {
		i.notice = time.Duration(in.Notice)
	}
	return i
}

// mix spreads the bits of similar hashes: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// interrupt plays one interruption, unless the gang is released before. It calls begins when it comes to it.
func (g *gang) interrupt(i interruption, begins func()) {
	if !g.trained(max(1, i.steps)) || !g.wait(i.after) {
		return
	}
	begins()
	why := "it was interrupted without notice"
	if i.notice > 0 {
		why = "it was interrupted after its notice"
		// A node that cannot be told goes without notice.
		notice := protocol.NodeNotice{Until: time.Now().Add(i.notice)}
		if err := protocol.WriteFile(filepath.Join(g.nodeDir(i.node), protocol.NoticeFile), notice); err != nil {
			why = "it was interrupted, but could not be notified: " + err.Error()
		} else if !g.wait(i.notice) {
			return
		}
	}
	g.take(i.node, why)
}

// trained waits until the gang has reported so many steps. It returns false when the gang is released first.
func (g *gang) trained(steps int64) bool {
	for g.wait(pollEvery) {
		for n := range g.agents {
			text, err := os.ReadFile(filepath.Join(g.nodeDir(n), protocol.TrainingFile))
			if made, parseErr := strconv.ParseInt(string(text), 10, 64); err == nil && parseErr == nil && made >= steps {
				return true
			}
		}
	}
	return false
}

func (g *gang) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-g.released:
		return false
	}
}
