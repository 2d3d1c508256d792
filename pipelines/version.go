package pipelines

// Version is part of the cache key of every step. Raise it when a new version of Sluice produces something else from the same spec and
// inputs, so that earlier results are not reused; where only some transforms do, see revised in activities/engine.
const Version = "7"
