package worker

import (
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/kubernetes"
)

// kubernetesPool opens a pool of pods. It keeps nothing in this process.
func (w *Worker) kubernetesPool(name string, spec spec.Pool) (training.Pool, error) {
	if why := control.Unreachable(w.session.Info.TemporalAddress, w.session.Store.URL()); why != "" {
		return nil, fault.New(fault.Invalid, "the nodes of pool "+name+" are other machines: "+why, nil)
	}
	client, namespace, err := kubernetes.Connect(*spec.Kubernetes)
	if err != nil {
		return nil, fault.New(fault.Invalid, "pool "+name+": "+err.Error(), err)
	}
	return kubernetes.New(kubernetes.Options{
		Name: name, Client: client, Namespace: namespace, Spec: spec,
		Agent: agent.Config{
			Address: w.session.Info.TemporalAddress, Namespace: w.session.Info.Namespace, Store: w.session.Store.URL(), CodecKeys: w.session.Codec.KeyFile(),
			Requirements: spec.Runtime.Python, MetricsListen: spec.MetricsListen,
		},
		Token: w.session.MintAgentToken, Program: delivery.New(w.session.Store, AgentPath()).Agent,
	}), nil
}
