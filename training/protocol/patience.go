package protocol

import "time"

// Patience is how long activities wait for a store, or a pool's API, that cannot be reached.
const Patience = 10 * time.Minute
