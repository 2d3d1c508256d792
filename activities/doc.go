// Package activities holds the side effects that workflows ask for. Every effect is idempotent by a key that survives retries.
package activities
