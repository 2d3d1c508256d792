package worker

import (
	"context"
	"fmt"

	"go.temporal.io/api/enums/v1"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/ec2"
	"github.com/sluiceml/sluice/training/kubernetes"
	"github.com/sluiceml/sluice/training/protocol"
)

// reachable refuses a pool whose nodes are other machines, where those could not reach what they need.
func (w *Worker) reachable(name string) error {
	if why := control.Unreachable(w.session.Info.TemporalAddress, w.session.Store.URL()); why != "" {
		return fault.New(fault.Invalid, "the nodes of pool "+name+" are other machines: "+why, nil)
	}
	return nil
}

// agentConfig is what the agents of all pools are told.
func (w *Worker) agentConfig(spec spec.Pool) protocol.AgentConfig {
	return protocol.AgentConfig{
		Address: w.session.Info.TemporalAddress, Namespace: w.session.Info.Namespace, Store: w.session.Store.URL(), CodecKeys: w.session.Codec.KeyFile(),
		Requirements: spec.Runtime.Python, MetricsListen: spec.MetricsListen,
	}
}

// ec2Pool opens a pool of instances. value reads a secret.
func (w *Worker) ec2Pool(ctx context.Context, name string, spec spec.Pool, value func(context.Context, string) (string, error)) (training.Pool, error) {
	if err := w.reachable(name); err != nil {
		return nil, err
	}
	pool, err := ec2.New(ctx, ec2.Options{
		Name: name, Spec: *spec.EC2, Limits: spec.Limits, Prices: spec.USDPerHour, Depot: delivery.New(w.session.Store, AgentPath()),
		Agent: w.agentConfig(spec), Environ: agentEnviron, Token: w.session.MintAgentToken, Polls: w.polls,
		Secret: func(ctx context.Context, name string) (string, error) {
			found, err := value(ctx, name)
			if err != nil && !secret.Temporary(err) {
				err = fmt.Errorf("%w: %w", err, training.ErrInvalid)
			}
			return found, err
		},
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, err.Error(), err)
	}
	return pool, nil
}

// polls reports whether a worker of activities serves a task queue.
func (w *Worker) polls(ctx context.Context, queue string) (bool, error) {
	answer, err := w.session.Client.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return false, err
	}
	return len(answer.GetPollers()) > 0, nil
}

// kubernetesPool opens a pool of pods. It keeps nothing in this process.
func (w *Worker) kubernetesPool(name string, spec spec.Pool) (training.Pool, error) {
	if err := w.reachable(name); err != nil {
		return nil, err
	}
	client, namespace, err := kubernetes.Connect(*spec.Kubernetes)
	if err != nil {
		return nil, fault.New(fault.Invalid, "pool "+name+": "+err.Error(), err)
	}
	return kubernetes.New(kubernetes.Options{
		Name: name, Client: client, Namespace: namespace, Spec: spec,
		Agent: w.agentConfig(spec), Environ: agentEnviron, Token: w.session.MintAgentToken, Program: delivery.New(w.session.Store, AgentPath()).Agent,
	}), nil
}
