package protocol

import "time"

// Patience is how long activities wait for a store, a Vault, or a pool's API, that cannot be reached: longer than an outage of ten minutes.
const Patience = 15 * time.Minute
