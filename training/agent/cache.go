package agent

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluiceml/sluice/internal/filecache"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/store"
)

// openCache opens the cache that the agents of this machine share, as far as they run as the same user. A node that cannot use it fetches
// everything.
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

// noteSources says where the files of a generation came from; before is what had come until then.
func (n *node) noteSources(generation int, before store.Sources) {
	from := n.near.Sources().Since(before)
	n.log.Info("prepared", "generation", generation, "bytes_linked", from.Linked, "bytes_cached", from.Cached, "bytes_fetched", from.Fetched)
	for source, bytes := range map[string]int64{"generation": from.Linked, "cache": from.Cached, "store": from.Fetched} {
		n.counters.Add(telemetry.NodeInputBytes.Name, map[string]string{"source": source}, float64(bytes))
	}
}
