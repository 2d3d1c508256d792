// Package shard writes the shards of a dataset: the rows that marks refer to, in the order of their digests, in the configured format, and
// their profile.
package shard
