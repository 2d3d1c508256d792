// Package activities has the side effects that workflows request. Every effect is idempotent, by a key that stays the same in all attempts.
package activities
