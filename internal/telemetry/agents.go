package telemetry

import "slices"

// Agents are what the agent of a node knows.
func Agents() []Metric { return slices.Concat(NodeGauges(), NodeCounters()) }

// NodeGauges are those of them that say how it is now.
func NodeGauges() []Metric {
	return append([]Metric{NodeRanks, NodeStep, NodeRate, NodeCommitted, NodeNotice, NodeRebalance}, NodeGPUs.Metrics()...)
}

// NodeCounters are the counters.
func NodeCounters() []Metric {
	return []Metric{NodeCommits, NodeCommitBytes, NodeCommitTime, NodeInputBytes}
}

// What an agent exports: see their help texts.
var (
	NodeRanks = gauge("sluice_node_ranks", "Ranks that run on the node")
	NodeStep  = gauge("sluice_node_step", "Last training step of the gang; only on node 0, like the rate and the commits")
	NodeRate  = gauge("sluice_node_steps_per_second", "Training steps per second, over the last ten steps")

	NodeCommitted   = gauge("sluice_node_committed_step", "Step of the newest checkpoint in the store")
	NodeCommits     = counter("sluice_node_commits_total", "Uploads of checkpoints; failed uploads are retried, superseded ones gave way to a newer checkpoint at a notice", Label{"outcome", []string{"committed", "failed", "superseded"}})
	NodeCommitBytes = counter("sluice_node_commit_bytes_total", "Size of the committed checkpoints")
	NodeCommitTime  = counter("sluice_node_commit_seconds_total", "Duration of the uploads")
	NodeInputBytes  = counter("sluice_node_input_bytes_total", "Size of the files that generations began with, by where the node had them from: the generation before, the pool's file cache, or the store", Label{"source", []string{"generation", "cache", "store"}})
	NodeNotice      = gauge("sluice_node_notice_timestamp_seconds", "When the node may be reclaimed, in Unix time; absent before a notice")
	NodeRebalance   = gauge("sluice_node_rebalance_timestamp_seconds", "Since when EC2 recommends to move off the instance, in Unix time; absent while it does not")
	// NodeGPUs are the newest readings of the node's GPUs.
	NodeGPUs = gpus("sluice_node_gpu_", Label{Name: "gpu"}, Label{Name: "uuid"})
)
