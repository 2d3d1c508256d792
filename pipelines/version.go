package pipelines

// Version is part of the cache key of every clean step. Raise it when a new version of Sluice produces something else from the same spec and
// inputs, so that earlier results are not reused.
const Version = "8"
