// Package delivery brings the node agent, and what it is told, to machines that share nothing with the worker but the store: each is
// fetched by an address that is good for a while, and checked by its digest.
package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Item is something that a machine fetches.
type Item struct {
	// URL is where it is, for a while, for everybody who knows it.
	URL string
	// SHA256 is what it has to be, in hexadecimal digits.
	SHA256 string
}

// Depot hands out through a store.
type Depot struct {
	store *store.Store
	agent string

	mu     sync.Mutex
	digest string // of the agent, once it is in the store
}

// New makes a Depot; agentPath is the agent's executable on this machine.
func New(s *store.Store, agentPath string) *Depot { return &Depot{store: s, agent: agentPath} }

// Agent lends the agent's executable, which it puts into the store when it is not there.
func (d *Depot) Agent(ctx context.Context, life time.Duration) (Item, error) {
	digest, err := d.storeAgent(ctx)
	if err != nil {
		return Item{}, err
	}
	url, err := d.store.LendBlob(ctx, digest, life)
	if err != nil {
		return Item{}, fmt.Errorf("deliver the agent: %w", err)
	}
	return Item{URL: url, SHA256: strings.TrimPrefix(digest, "sha256:")}, nil
}

// storeAgent reads and hashes the executable once, and makes sure each time that the store has it.
func (d *Depot) storeAgent(ctx context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.digest != "" {
		if there, err := d.store.HasBlob(ctx, d.digest); there || err != nil {
			return d.digest, err
		}
	}
	f, err := os.Open(d.agent)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s: build it beside sluice, or set its path with SLUICE_AGENT", training.ErrNoAgent, d.agent)
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	digest, _, err := d.store.PutBlob(ctx, f)
	if err != nil {
		return "", fmt.Errorf("deliver the agent: %w", err)
	}
	d.digest = digest
	return digest, nil
}

// Config lends what the agents of one try to start a gang are told. It may hold secrets, so it is there only until Withdraw, and its
// address is good for as long as life only.
func (d *Depot) Config(ctx context.Context, key training.Key, try string, content []byte, life time.Duration) (Item, error) {
	at := gangPrefix(key) + try
	if err := d.store.Driver().Write(ctx, at, bytes.NewReader(content), store.WriteOptions{}); err != nil {
		return Item{}, fmt.Errorf("deliver the agents' configuration: %w", err)
	}
	url, err := d.store.Lend(ctx, at, life)
	if err != nil {
		return Item{}, fmt.Errorf("deliver the agents' configuration: %w", err)
	}
	sum := sha256.Sum256(content)
	return Item{URL: url, SHA256: hex.EncodeToString(sum[:])}, nil
}

// Withdraw removes the configurations of all tries to start a gang. It may be called again.
func (d *Depot) Withdraw(ctx context.Context, key training.Key) error {
	if err := d.store.RemoveAll(ctx, gangPrefix(key)); err != nil {
		return fmt.Errorf("withdraw the agents' configuration: %w", err)
	}
	return nil
}

// WithdrawOld removes the configurations that were stored before a time. Whoever started the gang may have died.
func (d *Depot) WithdrawOld(ctx context.Context, before time.Time) error {
	for info, err := range d.store.Driver().List(ctx, store.HandoverPrefix) {
		if err == nil && info.Modified.Before(before) {
			err = d.store.Driver().Delete(ctx, info.Key)
		}
		if err != nil {
			return fmt.Errorf("withdraw configurations of agents: %w", err)
		}
	}
	return nil
}

// AddPlace notes where machines are started, such as ec2/eu-central-1, so that workers which know no pool there can look for what is left.
func (d *Depot) AddPlace(ctx context.Context, name string) error {
	err := d.store.Driver().Write(ctx, store.PlacesPrefix+name, bytes.NewReader(nil), store.WriteOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("note that machines are started in %s: %w", name, err)
	}
	return nil
}

// Places are what follows a prefix in the names of the places that were added.
func (d *Depot) Places(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	for info, err := range d.store.Driver().List(ctx, store.PlacesPrefix+prefix) {
		if err != nil {
			return nil, fmt.Errorf("list where machines were started: %w", err)
		}
		names = append(names, strings.TrimPrefix(info.Key, store.PlacesPrefix+prefix))
	}
	return names, nil
}

// gangPrefix begins the keys of a gang's configurations.
func gangPrefix(key training.Key) string {
	return fmt.Sprintf("%s%s/%s/g%d/", store.HandoverPrefix, key.Run, key.Step, key.Generation)
}
