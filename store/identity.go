package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// identityBytes are enough to tell the stores of one organization apart.
const identityBytes = 4

// Identity returns the store's ID: eight random hexadecimal digits, created on first use. It separates several stores that share one place
// elsewhere.
func (s *Store) Identity(ctx context.Context) (string, error) {
	var mine struct {
		ID string `json:"id"`
	}
	err := s.GetJSON(ctx, identityKey, &mine)
	if errors.Is(err, ErrNotFound) {
		random := make([]byte, identityBytes)
		_, _ = rand.Read(random) // never fails
		mine.ID = hex.EncodeToString(random)
		if err = s.PutJSON(ctx, identityKey, mine, WriteOptions{IfAbsent: true}); errors.Is(err, ErrExists) {
			err = s.GetJSON(ctx, identityKey, &mine)
		}
	}
	if err != nil {
		return "", fmt.Errorf("the store's identity: %w", err)
	}
	return mine.ID, nil
}
