package record

import "github.com/sluiceml/sluice/store"

// Cached is what the step cache has of a result: where its record is.
type Cached struct {
	At StepRef `json:"at"`
}

// Result is a step's record as it is stored: it is the entry of the step cache too.
type Result struct {
	StepRecord
	Cached
}

// CacheKey is where the step cache has the result with a key.
func CacheKey(key string) string { return store.CachePrefix + key[:2] + "/" + key + ".json" }
