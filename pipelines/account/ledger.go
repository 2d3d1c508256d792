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

// Folder is the folder, in the work folder, with one ledger file for each finished piece of work.
const Folder = "counts"

// Keep writes the ledger of one piece of work under a unique name. A retry overwrites the same file.
//
// The account is computed from these files. Beam's counters, which the DoFns also increase, only inform a cluster's web page: they count
// retried work twice, and Beam's prism may lose the counts of one of two bundles that end at the same moment (2.77).
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
	name := rows.DigestOf([]byte(of)) // the name itself may be too long for a file name
	return os.WriteFile(filepath.Join(work, Folder, hex.EncodeToString(name[:])), text, 0o666)
}

// Sum adds up all ledgers.
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

// CountReused is the namespace of rows taken from the cache.
const CountReused = "reused"

// The namespaces of the counts. The name of a count is a rule, a reason, a part, a kind of personal data, a transform or AllRead.
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
	CountGroups   = "groups" // groups of duplicates; not part of the account
)

// AllRead is the name used in namespaces with a single counter, since Beam requires one.
const AllRead = "rows"
