package routing

import (
	"context"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

// reportKept is how long the record of a gateway that has ended stays, by the clock of the store.
const reportKept = time.Hour

// silence is far longer than a gateway that lives goes without a report.
const silence = time.Minute

// Report is what a gateway says of itself.
type Report struct {
	// Snapshot is what it has counted, and its beat.
	stats.Snapshot
	// Host is its machine, and URL where that machine reaches the model; for people, and for programs there.
	Host string `json:"host"`
	URL  string `json:"url,omitempty"`
	// Read is the newest revision of the routing document that it has read; Snapshot.Revision is the one it serves.
	Read int64 `json:"read"`
	// Releases of the revision read, in its order.
	Releases []ReportedRelease `json:"releases,omitempty"`
}

// ReportedRelease is how far a gateway is with one.
type ReportedRelease struct {
	Version string    `json:"version"`
	Weight  float64   `json:"weight"`
	State   LoadState `json:"state"`
	// Waiting says what for, when the state is loading and that takes long.
	Waiting string `json:"waiting,omitempty"`
	// Error says why the state is failed.
	Error string `json:"error,omitempty"`
}

// LoadState is how far a release is on its way to traffic.
type LoadState string

// The states of a release.
const (
	Loading LoadState = "loading"
	Ready   LoadState = "ready"
	Failed  LoadState = "failed"
)

func reportPrefix(target string) string { return store.ReplicasPrefix + target + "/" }

func reportKey(target, epoch string) string { return reportPrefix(target) + epoch + ".json" }

// PutReport writes a report in place of the gateway's earlier one. A beat that the death of a machine undoes is like one that was not written,
// so none waits for the disk.
func PutReport(ctx context.Context, s *store.Store, r Report) error {
	if err := s.PutJSON(ctx, reportKey(r.Target, r.Epoch), r, store.WriteOptions{Unsynced: true}); err != nil {
		return fmt.Errorf("report to target %s: %w", r.Target, err)
	}
	return nil
}

// ListReports reads the newest reports of all gateways of a target, those that ended in the last hour included.
func ListReports(ctx context.Context, s *store.Store, target string) ([]Report, error) {
	return ListReportsAt(ctx, s, target, time.Time{})
}

// ListReportsAt is ListReports without the gateways that have long been silent at a time of the store's clock. They have ended, or cannot reach the store,
// so that their leases have run out.
func ListReportsAt(ctx context.Context, s *store.Store, target string, at time.Time) ([]Report, error) {
	var keys []string
	for info, err := range s.Driver().List(ctx, reportPrefix(target)) {
		if err != nil {
			return nil, fmt.Errorf("gateways of target %s: %w", target, err)
		}
		if at.Sub(info.Modified) <= silence {
			keys = append(keys, info.Key)
		}
	}
	found, err := store.Records[Report](ctx, s, keys)
	if err != nil {
		return nil, fmt.Errorf("gateways of target %s: %w", target, err)
	}
	var reports []Report
	for _, r := range found {
		if r != nil { // it was not removed meanwhile
			reports = append(reports, *r)
		}
	}
	return reports, nil
}

// SweepReports removes the records of gateways that ended long before the one of an epoch last wrote.
func SweepReports(ctx context.Context, s *store.Store, target, epoch string) error {
	own, err := s.Driver().Stat(ctx, reportKey(target, epoch))
	if err != nil {
		return fmt.Errorf("old gateways of target %s: %w", target, err)
	}
	for info, err := range s.Driver().List(ctx, reportPrefix(target)) {
		if err == nil && own.Modified.Sub(info.Modified) > reportKept {
			err = s.Driver().Delete(ctx, info.Key)
		}
		if err != nil {
			return fmt.Errorf("old gateways of target %s: %w", target, err)
		}
	}
	return nil
}
