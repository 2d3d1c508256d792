// Package shard writes the shards of a dataset: the rows that marks name, in the order of their digests, with the profile of them, and in the
// format that was asked for.
package shard
