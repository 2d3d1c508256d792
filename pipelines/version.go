package pipelines

// Version is part of the cache key of every step. Raise it when a new version of Sluice produces something else from the same spec and
// inputs, so that earlier results are not reused.
const Version = "8"

// ParquetVersion is Version for cleanings that read Parquet. Earlier builds read some booleans and LZ4 pages wrongly.
const ParquetVersion = Version + "p"
