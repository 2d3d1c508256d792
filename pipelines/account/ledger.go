package account

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// Ledger holds counts by namespace and name.
type Ledger map[[2]string]int64

// counted is one count of a ledger.
type counted struct {
	Space string `json:"space"`
	Name  string `json:"name"`
	N     int64  `json:"n"`
}

// Folder of the work folder holds the ledgers of what is done, a file each.
const Folder = "counts"

// Keep writes the ledger of one piece of work, by a name of its own: who does the same again writes the same file.
//
// The account is made of these files. Beam's counters, which count adds to, are for a cluster's page alone: what a cluster did twice
// counts twice, and Beam's prism may forget the counts of one of two bundles that end at the same moment (2.77).
func (t Ledger) Keep(work, of string) error {
	if len(t) == 0 {
		return nil
	}
	var list []counted
	for at, n := range t {
		list = append(list, counted{at[0], at[1], n})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	name := rows.DigestOf([]byte(of)) // which may be too long for one
	return os.WriteFile(filepath.Join(work, Folder, hex.EncodeToString(name[:])), text, 0o666)
}

// Sum adds up what was kept.
func Sum(work string) (Ledger, error) {
	dir := filepath.Join(work, Folder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := Ledger{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var list []counted
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		for _, c := range list {
			all[[2]string{c.Space, c.Name}] += c.N
		}
	}
	return all, nil
}

// CountReused is the namespace of rows that were taken from the cache.
const CountReused = "reused"

// The namespaces of the counts. In each a count's name is the rule, the reason, the part, the kind, the
// transform or AllRead.
const (
	CountRead     = "read"
	CountKept     = "kept"
	CountDropped  = "dropped"
	CountRejected = "rejected"
	CountMasked   = "masked"
	CountExploded = "exploded"
	CountCopied   = "copied"
	CountAsserted = "asserted"
	CountTried    = "tried"
	CountFailed   = "failed"
	CountGroups   = "groups" // of rows that are equal for a Deduplicate; no part of the account
)

// AllRead is the name of the only counter of its namespace, since Beam wants one.
const AllRead = "rows"
