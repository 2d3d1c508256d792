package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/sluiceml/sluice/training/ec2/imds"
	"github.com/sluiceml/sluice/training/protocol"
)

// spotEvery is how often AWS advises to look.
const spotEvery = 5 * time.Second

// hearSpot asks EC2's metadata service for the notice, and writes it where notices are looked for, as other pools do.
func (n *node) hearSpot(ctx context.Context, metadata string, every time.Duration) {
	service := imds.New(metadata)
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		until, ok, err := service.Interruption(ctx)
		if ok {
			err = writeNotice(n.config.Dir, protocol.NodeNotice{Until: until})
		}
		switch {
		case ctx.Err() != nil || ok && err == nil:
			return
		case err != nil:
			n.log.Warn("the instance's notice cannot be asked for", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// writeNotice makes the notice appear whole.
func writeNotice(dir string, notice protocol.NodeNotice) error {
	return writeWhole(filepath.Join(dir, protocol.NoticeFile), notice)
}
