package worker

import (
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/kubernetes"
)

// kubernetesPool opens a pool of pods. It keeps nothing in this process.
func (s *Session) kubernetesPool(name string, spec dsl.Pool) (training.Pool, error) {
	if why := remoteTrouble(s.Info.TemporalAddress, s.Store.URL()); why != "" {
		return nil, contract.Error(contract.ErrInvalid, "the nodes of pool "+name+" are other machines: "+why, nil)
	}
	client, namespace, err := kubernetes.Connect(*spec.Kubernetes)
	if err != nil {
		return nil, contract.Error(contract.ErrInvalid, "pool "+name+": "+err.Error(), err)
	}
	return kubernetes.New(kubernetes.Options{
		Name: name, Client: client, Namespace: namespace, Spec: spec,
		Agent: agent.Config{
			Address: s.Info.TemporalAddress, Namespace: s.Info.Namespace, Store: s.Store.URL(), CodecKeys: s.codec.KeyFile(),
			Requirements: spec.Runtime.Python, MetricsListen: spec.MetricsListen,
		},
		Token: s.MintAgentToken, Program: delivery.New(s.Store, AgentPath()).Agent,
	}), nil
}
