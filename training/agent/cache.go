package agent

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluiceml/sluice/internal/filecache"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/store"
)

// openCache opens the cache that the agents of one user share on this machine. A node that cannot use it fetches everything.
func (n *node) openCache() *filecache.Cache {
	if n.config.Cache == "" {
		return nil
	}
	dir := filepath.Join(n.config.Cache, strconv.Itoa(os.Geteuid()))
	c, err := filecache.Open(dir, int64(n.config.CacheLimit), n.log)
	if err != nil {
		n.log.Warn("this node has no file cache, and fetches everything", "dir", dir, "error", err)
		return nil
	}
	return c
}

// noteSources logs and counts where the files of a generation came from. before has the sums from before it was prepared.
func (n *node) noteSources(generation int, before store.Sources) {
	from := n.near.Sources().Since(before)
	n.log.Info("prepared", "generation", generation, "bytes_linked", from.Linked, "bytes_cached", from.Cached, "bytes_fetched", from.Fetched)
	for source, bytes := range map[string]int64{"generation": from.Linked, "cache": from.Cached, "store": from.Fetched} {
		n.counters.Add(telemetry.NodeInputBytes.Name, map[string]string{"source": source}, float64(bytes))
	}
}
