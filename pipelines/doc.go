// Package pipelines runs the cleaning of a clean step: a chain of transforms over rows, as an Apache Beam pipeline on the prism
// runner, in a child process of its own. It knows nothing of Temporal.
//
// Run starts the child (the same executable, by the hidden argument Arg) and Main is what the child does.
//
// # How the rows flow
//
// Beam moves ranges of files and digests, never rows. The chain is cut after each Deduplicate and at the write; what lies between
// two cuts is a segment:
//
//	ranges -> segment 0 -> group by digest -> survivors -> segment 1 -> ... -> group by shard -> shard files
//
// A segment works through one range of a file with a pool of workers, applies its row transforms, appends the rows that are left
// to a spill file and emits a mark for each: a digest, a sort key and where the row lies. Grouping happens on marks, under few
// keys. The next segment reads the survivors from the spill file, the sink reads them in the order of their digests. So the
// memory depends on the number of rows by some 60 bytes each and not on their size, and the dataset depends on the rows alone: not on
// their order in the files, the number of files or of workers.
//
// The profile is taken as the rows are written, shard by shard, and merged: see package profile. It lies beside the dataset, whose
// digest is over rows and schema.
//
// # The account
//
// Each row read is kept, dropped by a named rule, or rejected for a reason and written to the dead letter. Of the rows that Explode
// makes of one, those beyond the first count as read when they are made. Segments, survivors
// and sink count on their own, through Beam's metrics; the job fails when the counts do not add up.
package pipelines
