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
	NodeRanks = gauge("sluice_node_ranks", "Ranks that run on the node")
	NodeStep  = gauge("sluice_node_step", "Last training step of the gang; on node 0 only, as rate and commits")
	NodeRate  = gauge("sluice_node_steps_per_second", "Training steps a second, over the last ten")

	NodeCommitted   = gauge("sluice_node_committed_step", "Step of the newest checkpoint in the store")
	NodeCommits     = counter("sluice_node_commits_total", "Checkpoints that were uploaded; those that failed are tried again", Label{"outcome", []string{"committed", "failed"}})
	NodeCommitBytes = counter("sluice_node_commit_bytes_total", "Size of the checkpoints that were committed")
	NodeCommitTime  = counter("sluice_node_commit_seconds_total", "Time that the uploads took")
	NodeNotice      = gauge("sluice_node_notice_timestamp_seconds", "When the node may be gone, in Unix time; absent until it has been told that it will be")
	// NodeGPUs are the newest readings of the node's GPUs.
	NodeGPUs = gpus("sluice_node_gpu_", Label{Name: "gpu"}, Label{Name: "uuid"})
)
