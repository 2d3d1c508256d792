package record

import "github.com/sluiceml/sluice/store"

// Cached is the entry of the step cache for a result: where its record is.
type Cached struct {
	At StepRef `json:"at"`
}

// Result is a step's record as it is stored. It is also the entry of the step cache.
type Result struct {
	StepRecord
	Cached
}

// CacheKey returns the store's key for an entry of the step cache.
func CacheKey(key string) string { return store.CachePrefix + key[:2] + "/" + key + ".json" }
