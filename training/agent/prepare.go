package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/delegate"
	"github.com/sluiceml/sluice/training/protocol"
)

// prepared is a node that is ready to run one generation.
type prepared struct {
	key      training.Key
	index    int
	workflow string
	step     record.StepInput
	spec     spec.Train
	seal     checkpoint.Seal
	folder   *script.Folder
	python   string // the virtual environment that folder uses; empty for none
	mask     *secret.Mask
	dirs     dirs
	said     bytes.Buffer // the output of the preparation
	// resumeFrom is the checkpoint that the script continues from: the folder or file that it wrote.
	resumeFrom string
	// linked are the names by which it is in the folder of checkpoints, too.
	linked []string
}

// dirs are the folders and files of one generation on this node, except those of folder.
type dirs struct {
	root, checkpoints, commits, resume string
	metrics, before                    string
}

// Prepare fetches what the ranks need, unless the node has it from the previous generation, whose folder it removes at the end. A retry
// starts over. A node that cannot reach the store for long counts as lost, because other nodes may reach it.
func (n *node) Prepare(ctx context.Context, in protocol.PrepareInput) (out protocol.PrepareOutput, err error) {
	defer func() { err = cutOff(err) }()
	if err := checkProtocol(in.Protocol); err != nil {
		return out, err
	}
	n.preparing.Lock()
	defer n.preparing.Unlock()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	if err := n.isFree(); err != nil {
		return out, err
	}
	defer n.noteSources(in.Seal.Generation, n.near.Sources())
	resolved, err := record.LoadTraining(ctx, n.store, in.Step)
	if err != nil {
		return out, err
	}
	p := &prepared{
		key: keyOf(in.Step, in.Seal.Generation), index: in.Node, seal: in.Seal, step: in.Step, spec: resolved,
		workflow: activity.GetInfo(ctx).WorkflowExecution.ID,
	}
	if err := p.makeDirs(n.config); err != nil {
		return out, fault.New(fault.Infrastructure, "make the node's folders: "+err.Error(), err)
	}
	if in.Step.BySluice() {
		if err := n.askSluice(ctx, p); err != nil {
			return out, err
		}
	}
	if err := n.layOut(ctx, p, in.Step); err != nil {
		n.openLog(p, in.Node+1, 1).Close()
		return out, err
	}
	if p.seal.Resume != nil {
		err := n.fetchResume(ctx, p)
		if errors.Is(err, errUnusable) {
			out.Unusable = err.Error()
			return out, nil
		} else if err != nil {
			return out, err
		}
	}
	port, err := proc.FreePort(ctx, n.config.Host)
	if err != nil {
		return out, fault.New(fault.Infrastructure, "the ranks' rendezvous: "+err.Error(), err)
	}
	out.MasterPort = port
	n.mu.Lock()
	before := n.prepared
	n.prepared = p
	n.mu.Unlock()
	if before != nil && before.dirs.root != p.dirs.root {
		n.near.Forget(before.dirs.root)
		if err := script.RemoveFolder(before.dirs.root); err != nil {
			n.log.Warn("the folder of the generation before could not be removed", "error", err)
		}
	}
	return out, nil
}

// askSluice makes sluice itself the step's command.
func (n *node) askSluice(ctx context.Context, p *prepared) error {
	program, err := delegate.Find(ctx, n.config.Sluice)
	if err != nil {
		return err
	}
	resolved, err := record.LoadSpec[json.RawMessage](ctx, n.store, p.step)
	if err != nil {
		return err
	}
	command := &p.spec.Command.Command
	if *command, err = stepargs.Write(*command, program, p.dirs.root, resolved); err != nil {
		return fault.New(fault.Infrastructure, "write the request to sluice: "+err.Error(), err)
	}
	return nil
}

// cutOff turns an error of a store that cannot be reached into one that makes the node count as lost.
func cutOff(err error) error {
	if !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fault.Final(fault.New(fault.Preempted, "it cannot reach the store: "+fault.Message(err), err))
}

// showWaiting makes the heartbeats of Prepare report that it waits for the store, until over is called. Heartbeats of ranks have more
// important things to report.
func showWaiting(ctx context.Context, why error) (over func()) {
	if !activity.IsActivity(ctx) || activity.GetInfo(ctx).ActivityType.Name != protocol.PrepareActivity {
		return func() {}
	}
	return heartbeat.Instead(ctx, func() any {
		return protocol.Progress{Text: "a node is waiting for the store: " + why.Error(), Share: -1}
	})
}

// isFree returns an error while ranks still run on the node.
func (n *node) isFree() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ranks == nil || isClosed(n.ranks.done) {
		return nil
	}
	return fault.Errorf(fault.Infrastructure, "ranks of generation %d still run on this node", n.ranks.key.Generation)
}

func (p *prepared) makeDirs(c protocol.AgentConfig) error {
	root := filepath.Join(c.Dir, "g"+strconv.Itoa(p.key.Generation))
	if err := script.RemoveFolder(root); err != nil {
		return err
	}
	p.dirs = dirs{
		root:        root,
		checkpoints: filepath.Join(root, "checkpoints"),
		commits:     filepath.Join(root, "commits"),
		resume:      filepath.Join(root, "resume"),
		metrics:     filepath.Join(c.LogDir, training.MetricsPath(p.key, p.index)),
		before:      filepath.Join(root, "metrics"),
	}
	for _, dir := range []string{p.dirs.checkpoints, p.dirs.commits, filepath.Dir(p.dirs.metrics)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Metrics are in the log folder. Where that outlives the node, they show what was lost with it.
	return errors.Join(os.WriteFile(p.dirs.metrics, nil, 0o644), os.WriteFile(p.dirs.before, nil, 0o644))
}

// layOut fetches workspace, inputs and secrets to the node.
func (n *node) layOut(ctx context.Context, p *prepared, in record.StepInput) error {
	secrets, withhold, err := n.secrets(ctx, in)
	if err != nil {
		return err
	}
	p.mask = secrets.Mask
	p.python, err = n.python(ctx, in)
	if err != nil {
		return fault.New(fault.Infrastructure, err.Error(), err)
	}
	p.folder, err = script.Prepare(ctx, script.Setup{
		Dir: p.dirs.root, Store: n.store, Command: p.spec.Command, Workspace: in.Workspace, Env: in.Env, Python: p.python,
		Requirements: n.config.Requirements, Progress: &p.said, Node: !n.config.Shared,
		Secrets: secrets.ByVariable, Withhold: withhold,
	})
	switch {
	case err == nil:
		p.said.WriteString(p.folder.Note)
		return nil
	case fault.TypeOf(err) == fault.User:
		return fault.New(fault.User, err.Error(), err)
	}
	return fault.New(fault.Infrastructure, err.Error(), err)
}

// python returns the virtual environment of the ranks. On the worker's machine it is that of the run, as for the run's other programs.
func (n *node) python(ctx context.Context, in record.StepInput) (string, error) {
	if !n.config.Shared {
		return n.config.PythonEnv, nil
	}
	sub, err := record.LoadSubmission(ctx, n.store, in.Submission)
	pythons := script.Pythons{Own: n.config.PythonEnv, Named: os.Getenv(protocol.PythonVariable) != ""}
	return pythons.For(sub.Python), err
}

// errUnusable marks a checkpoint that is damaged, so that the one before it is used.
var errUnusable = errors.New("the checkpoint cannot be used")

// fetchResume fetches the checkpoint and, on node 0, the metrics up to it. Both are verified by their digests.
func (n *node) fetchResume(ctx context.Context, p *prepared) error {
	err := p.seal.Files(n.store, p.key).Fetch(ctx, p.seal.Resume.Checkpoint, p.dirs.resume)
	if err == nil {
		p.resumeFrom, err = layoutOf(p.spec.Checkpoint.Layout).within(p.dirs.resume)
	}
	if err == nil {
		err = p.linkResumed()
	}
	if err == nil && p.index == 0 {
		err = n.fetchMetrics(ctx, p)
	}
	switch {
	case err == nil:
		return nil
	case isDamage(err), errors.Is(err, errUnusable):
		return fmt.Errorf("%w: step %d: %w", errUnusable, p.seal.Resume.Step, err)
	}
	return fault.New(fault.Infrastructure, "fetch the checkpoint: "+err.Error(), err)
}

// linkResumed makes the checkpoint appear where the script writes its own: many look there for the newest. Files are hard-linked, so a script
// that deletes or replaces them there leaves those of resumeFrom as they are.
func (p *prepared) linkResumed() error {
	p.linked = []string{"step-" + strconv.FormatInt(p.seal.Resume.Step, 10)}
	switch p.spec.Checkpoint.Layout {
	case spec.LayoutHuggingFace:
		p.linked = []string{filepath.Base(p.resumeFrom)}
	case spec.LayoutLightning: // whose ckpt_path="last" looks for this name
		p.linked = []string{filepath.Base(p.resumeFrom), "last.ckpt"}
	}
	for _, name := range p.linked {
		if err := linkTree(p.resumeFrom, filepath.Join(p.dirs.checkpoints, name)); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) fetchMetrics(ctx context.Context, p *prepared) error {
	lines, err := p.seal.Files(n.store, p.key).Blob(ctx, p.seal.Resume.Metrics)
	if err != nil {
		return err
	}
	defer lines.Close()
	f, err := os.Create(p.dirs.metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := os.Create(p.dirs.before) // the script may truncate the other
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(f, before), lines)
	return errors.Join(err, before.Close())
}

// isDamage reports whether err means that the checkpoint itself is damaged or missing, as opposed to out of reach.
func isDamage(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound)
}
