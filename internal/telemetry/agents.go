package telemetry

import "slices"

// Agents are what the agent of a node knows.
func Agents() []Metric { return slices.Concat(NodeGauges(), NodeCounters()) }

// NodeGauges are those of them that say how it is now.
func NodeGauges() []Metric {
	return append([]Metric{NodeRanks, NodeStep, NodeRate, NodeCommitted, NodeNotice}, NodeGPUs.Metrics()...)
}

// NodeCounters are the counters.
func NodeCounters() []Metric { return []Metric{NodeCommits, NodeCommitBytes, NodeCommitTime} }

// What an agent exports: see their help texts.
var (
	NodeRanks = Metric{Name: "sluice_node_ranks", Type: Gauge, Help: "Ranks that run on the node"}
	NodeStep  = Metric{Name: "sluice_node_step", Type: Gauge, Help: "Last training step of the gang; on node 0 only, as rate and commits"}
	NodeRate  = Metric{Name: "sluice_node_steps_per_second", Type: Gauge, Help: "Training steps a second, over the last ten"}

	NodeCommitted   = Metric{Name: "sluice_node_committed_step", Type: Gauge, Help: "Step of the newest checkpoint in the store"}
	NodeCommits     = Metric{Name: "sluice_node_commits_total", Type: Counter, Labels: []Label{{"outcome", []string{"committed", "failed"}}}, Help: "Checkpoints that were uploaded; those that failed are tried again"}
	NodeCommitBytes = Metric{Name: "sluice_node_commit_bytes_total", Type: Counter, Help: "Size of the checkpoints that were committed"}
	NodeCommitTime  = Metric{Name: "sluice_node_commit_seconds_total", Type: Counter, Help: "Time that the uploads took"}
	NodeNotice      = Metric{Name: "sluice_node_notice_timestamp_seconds", Type: Gauge, Help: "When the node may be gone, in Unix time; absent until it has been told that it will be"}
	// NodeGPUs are the newest readings of the node's GPUs.
	NodeGPUs = gpus("sluice_node_gpu_", Label{Name: "gpu"}, Label{Name: "uuid"})
)
