// Package pipelines runs the cleaning of a clean step: a graph of transforms over rows, as an Apache Beam pipeline, in a child process of
// its own. It does not depend on Temporal.
//
// Run starts the child (the same executable, with the hidden argument Arg); Main is the child's main function.
//
// This package has the job, the child, the plan, the segments and their units of work. The packages below it provide the parts, and do not
// depend on Beam: package rows is shared by all, columns has the types of fields, format reads and writes files, avro those of Avro,
// transform applies transforms to rows, spill stores rows and marks on disk between two segments, shard writes the dataset from them, and
// account counts rows.
//
// # How the rows flow
//
// Beam moves file ranges and digests, never rows. The graph of transforms is cut where rows must be compared with each other: at each
// Deduplicate and Combine. The parts between the cuts are segments. A segment begins at its entry, which is a source or a cut, and contains
// everything a row can reach from there up to the next ends, which are cuts and sinks:
//
//	ranges -> segment 0 -> group by digest -> kept rows -> segment 1 -> ... -> group by shard -> shard files
//	              \-> another end                 ^- marks of other segments that end there
//
// A segment has a pool of workers, each of which processes one unit at a time: a range of a file, or the rows of such a unit that a cut has
// kept. A row is passed from node to node until it reaches an end. Flatten is only an edge; if several nodes take a row, each gets a copy.
// At an end the row is appended to the unit's spill file, and a mark is emitted for it: a digest, a sort key and the row's place. Grouping
// works on marks, under a small number of keys, which begin with the end. Marks are stored in files, and Beam groups references to them.
// The next segment reads the rows from the spill files of the segments before it, and sinks read them in the order of their digests; a row
// that goes unchanged from a cut to a sink is not copied. Two groups are processed at a time, and a group whose marks do not fit the memory
// is first divided on disk into key ranges. So memory use does not depend on the number of rows, and the dataset depends only on the rows:
// not on their order in the files, or the number of files or workers.
//
// Only Deduplicate by minhash holds something for each row. It has a single group, since whether a row is kept depends on all rows before
// it: some 200 bytes a row with its 14 bands, and as many again for a kept row. See package ngram.
//
// Shards are written as JSON lines first. The columns that all shards of a CSV, text, Parquet or Avro dataset share are known only when all
// rows are written: the process that started the job then converts the shards, holding one group of rows of each shard in memory.
//
// Files are in folders, or in buckets (s3:// and gs://). They are listed once, with their versions, and read by ranges; progress counts the
// bytes that were read.
//
// The profile is computed shard by shard while the rows are written, and then merged: see package columns. It is stored next to the
// dataset, whose digest covers only rows and schema.
//
// # Runners
//
// The graph runs in the child on a runner of our own (package runner), or on a cluster (see Runner): the same package starts Flink's job
// server, and speaks Beam's job API. If Flink runs on this machine, the child itself is its worker, over the loopback
// interface. Otherwise the workers are this program, too, which the cluster starts from the work folder. That folder must then be shared:
// it has the spill files, and the files by which workers report progress and errors to the child. Workers get no secrets.
//
// # The account
//
// Each row read is kept, dropped by a named rule, or rejected for a reason and written to the dead letter. If Explode makes several rows of
// one, those after the first count as read when they are made, and so do copies of a row after the first. Rows that go to an output of
// error_handling do not count as rejected. If Combine merges n rows into one, n-1 are dropped. Segments, cuts and sinks count
// independently, in a file for each piece of work; the job fails if the counts do not add up.
//
// It also fails if they do not add up for each source file. Each unit of a segment records what it saw of each file: rows read, dropped and
// rejected, rows that reached an end, and rows that came out of the cut at which the segment begins. These lists are sorted, and merged at
// the end: rows that reached a cut and did not come out of it were dropped there, and rows that reached a sink were kept.
//
// # Programs
//
// An Exec sends its rows to a user's program (see package program). Each row continues, in the goroutine of its unit, when the answer
// arrives. A unit ends only when all its answers have arrived.
//
// # Cached results
//
// What the first segment made of a piece of a file (spilled rows, marks, dead letter, counts) may be kept in a Cache, under a key of the
// file's content and everything that the segment depends on. A later job appends it to its own unit and adjusts the marks to the new place.
// Entries have checksums, and a damaged entry counts as missing.
package pipelines
