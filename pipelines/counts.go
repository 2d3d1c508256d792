package pipelines

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// ledger holds counts by namespace and name.
type ledger map[[2]string]int64

// counted is one count of a ledger.
type counted struct {
	Space string `json:"space"`
	Name  string `json:"name"`
	N     int64  `json:"n"`
}

// countsFolder of the work folder holds the ledgers of what is done, a file each.
const countsFolder = "counts"

// keep writes the ledger of one piece of work, by a name of its own: who does the same again writes the same file.
//
// The account is made of these files. Beam's counters, which count adds to, are for a cluster's page alone: what a cluster did twice
// counts twice, and Beam's prism may forget the counts of one of two bundles that end at the same moment (2.77).
func (t ledger) keep(work, of string) error {
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
	return os.WriteFile(filepath.Join(work, countsFolder, hex.EncodeToString(name[:])), text, 0o666)
}

// allCounts adds up what was kept.
func allCounts(work string) (ledger, error) {
	dir := filepath.Join(work, countsFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := ledger{}
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
