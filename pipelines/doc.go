// Package pipelines runs the cleaning of a clean step: a graph of transforms over rows, as an Apache Beam pipeline, in a child process
// of its own. It knows nothing of Temporal.
//
// Run starts the child (the same executable, by the hidden argument Arg) and Main is what the child does.
//
// This package has the job, the child, the plan, the segments and their units of work. What they are made of lies below: package rows is
// what all share, columns has the types of their fields, format reads and writes files, avro those of Avro, transform is what the transforms
// do to a row, spill is what lies on the disk between two segments, shard writes the dataset of it, and account counts. Of these none knows
// Beam.
//
// # How the rows flow
//
// Beam moves ranges of files and digests, never rows. The graph of transforms is cut where rows must be compared with others: at each
// Deduplicate and Combine. Between the cuts lie segments. A segment begins at its entry, a source or a cut, and has all that a row can
// come to from there up to the next ends, which are cuts and sinks:
//
//	ranges -> segment 0 -> group by digest -> survivors -> segment 1 -> ... -> group by shard -> shard files
//	              \-> another end                 ^- marks of other segments that end there
//
// A segment works through one unit, which is a range of a file or the rows that a cut lets through of one, with a pool of workers. A
// row is handed from node to node as far as an end: Flatten is but an edge, and of a row with several takers each gets a copy. At an
// end it is appended to the segment's spill file of the unit, and a mark emitted for it: a digest, a sort key and where the row lies.
// Grouping happens on marks, under few keys, which begin with the end. Marks are put aside in files, and Beam groups references to them.
// The next segment reads the rows from the spill files of the segments before, the sinks read them in the order of their digests; a
// row that goes from a cut to a sink as it is stays where it lies. Two groups are worked on at a time, and one of more marks than fit the
// memory is divided first, on the disk, into ranges of their keys. So the memory does not depend on how many rows there are, and the
// dataset depends on the rows alone: not on their order in the files, the number of files or of workers.
//
// Only Deduplicate by minhash holds something of each row. It has a single group, since whether a row stays depends on all before it: some
// 200 bytes a row with its 14 bands, and as many again for one that stays. See package ngram.
//
// Shards are written as JSON lines. What those of CSV, text and Parquet have in common, the columns, is known when all rows are
// written: each is then converted in the process that began the job, shard by shard, and a group of rows is held at a time.
//
// Files lie in folders or, by s3:// and gs://, in buckets. They are listed once, with their versions, and read by ranges; their bytes
// are counted where they are read, for the progress.
//
// The profile is taken as the rows are written, shard by shard, and merged: see package profile. It lies beside the dataset, whose
// digest is over rows and schema.
//
// # Runners
//
// The graph runs in the child, on a runner of our own (package inprocess), or on a cluster (see Runner): Flink's job server is started by
// package flink, and package portable speaks Beam's job API. On one machine Flink's workers are the child itself, by loopback. Elsewhere
// they are this program too, started by the cluster from the work folder, which must then be shared: spill files lie in it, and what the
// workers tell the child of their progress and errors. Workers get no secrets.
//
// # The account
//
// Each row read is kept, dropped by a named rule, or rejected for a reason and written to the dead letter. Of the rows that Explode
// makes of one, those beyond the first count as read when they are made, and so do the copies of a row beyond the first. Rows that an
// output of error_handling takes are not rejected. Of n rows that Combine makes one of, n-1 are dropped. Segments, survivors
// and sink count on their own, each piece of work in a file; the job fails when the counts do not add up.
//
// It fails too when they do not for each source file. Each unit of a segment writes down what it saw of each file: rows read, dropped and
// rejected, rows that came to an end, and rows that came out of the cut it begins at. These lists are sorted, and merged at the end; what
// came to a cut and did not come out of it was dropped there, and what came to a sink was kept.
//
// # Programs
//
// An Exec hands its rows to a program of the user's (see package program) and goes on with each when its answer comes, in the goroutine
// of the unit: at the latest when the unit ends, which waits for all answers.
//
// # What was read before
//
// What the first segment made of a piece of a file (spilled rows, marks, dead letter, counts) may be kept in a Cache, under a key of the
// file's content and all that the segment depends on. A later job appends it to its own unit, with the marks moved there. An entry has a
// checksum, and one that is damaged is none.
package pipelines
