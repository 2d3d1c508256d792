package steplog

import (
	"context"

	"github.com/sluiceml/sluice/store"
)

// readAhead is how many chunks of a node are read at a time.
const readAhead = 8

// cursor goes through what is new of a node.
type cursor struct {
	r       *Reader
	node    int
	chunks  []store.Info // not looked at yet
	entries []entry      // read, and not passed on yet
	read    map[string]seen
}

// empty reports whether all that was read has been passed on.
func (c *cursor) empty() bool { return len(c.entries) == 0 }

// fill reads the next chunks that have something new. entries stays empty where none has.
func (c *cursor) fill(ctx context.Context) error {
	c.read = map[string]seen{}
	for c.empty() && len(c.chunks) > 0 {
		var infos []store.Info
		var keys []string
		for len(c.chunks) > 0 && len(keys) < readAhead {
			info := c.chunks[0]
			c.chunks = c.chunks[1:]
			if c.r.seen[info.Key].bytes != info.Bytes {
				infos, keys = append(infos, info), append(keys, info.Key)
			}
		}
		found, err := store.Records[chunk](ctx, c.r.store, keys)
		if err != nil {
			return err
		}
		for i, info := range infos {
			if found[i] == nil { // removed, or lost with the machine that wrote it
				continue
			}
			before := min(c.r.seen[info.Key].entries, len(found[i].Entries))
			c.entries = append(c.entries, found[i].Entries[before:]...)
			c.read[info.Key] = seen{bytes: info.Bytes, entries: len(found[i].Entries)}
		}
	}
	return nil
}

// note remembers what fill has read.
func (c *cursor) note() {
	for key, s := range c.read {
		c.r.seen[key] = s
	}
	c.read = nil
}
