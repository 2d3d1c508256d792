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

// hearNotice waits for the preemption notice and reports it to the train workflow, for each generation that the node is prepared for. It
// retries until that succeeds.
func (n *node) hearNotice(ctx context.Context) {
	said, told := "", 0
	warn := func(what string, err error) {
		if said != err.Error() { // it retries often, and preparing a node may take minutes
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

// passOn reports the notice to the workflow, unless it has done so for the generation that the node is prepared for. It returns the last
// generation for which it has.
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

// signal sends a notice to a train workflow.
func (n *node) signal(ctx context.Context, workflow string, notice protocol.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return n.client.SignalWorkflow(ctx, workflow, "", protocol.NoticeSignal, notice)
}
