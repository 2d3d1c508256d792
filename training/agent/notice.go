package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training/protocol"
)

// hearNotice waits for the notice and passes it on to the train workflow: for each generation that the node is prepared for, again and again
// until the workflow has taken it.
func (n *node) hearNotice(ctx context.Context) {
	said, told := "", 0
	warn := func(what string, err error) {
		if said != err.Error() { // it looks often, and a node may be prepared for minutes
			n.log.Warn(what, "error", err)
		}
		said = err.Error()
	}
	for range poll.Every(ctx, lookEvery) {
		raw, err := os.ReadFile(filepath.Join(n.config.Dir, protocol.NoticeFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var notice protocol.NodeNotice
		if err == nil {
			err = json.Unmarshal(raw, &notice)
		}
		if err != nil {
			warn("the preemption notice could not be read", err)
			continue
		}
		if told, err = n.passOn(ctx, notice, told); err != nil {
			warn("the preemption notice could not be reported yet", err)
		}
	}
}

// passOn tells the workflow of the notice, unless the generation that the node is prepared for has been told. It returns which has been told.
func (n *node) passOn(ctx context.Context, notice protocol.NodeNotice, told int) (int, error) {
	n.mu.Lock()
	n.notice = notice
	p := n.prepared
	n.mu.Unlock()
	if p == nil {
		return told, errors.New("the node has not been prepared")
	}
	now := p.key.Generation
	if now == told {
		return told, nil
	}
	if err := n.signal(ctx, p.workflow, protocol.Notice{Generation: now, Node: p.index, Until: notice.Until}); err != nil {
		return told, err
	}
	return now, nil
}

// signal tells a train workflow something of the node.
func (n *node) signal(ctx context.Context, workflow string, notice protocol.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return n.client.SignalWorkflow(ctx, workflow, "", protocol.NoticeSignal, notice)
}
