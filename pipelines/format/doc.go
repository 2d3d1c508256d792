// Package format reads and writes files of rows: it finds them in folders and buckets, decompresses and decodes them, and reads and writes
// JSON, text, CSV, Parquet and Avro.
package format
