package stats

// Keyed is what was counted of keys while one revision of sticky traffic was served. Requests of one key are not independent, so tests that
// take them for that reject candidates that are as good. Here a key counts once.
//
// The cells below To are the candidate's. Those below From were so at an earlier share, and are not counted: what is known of them is evidence
// of an earlier stage. Of the others nothing is known, since a stable release has had them all, and chance gives (To-From)/(Cells-From) of
// them to the candidate.
type Keyed struct {
	From int `json:"from,omitempty"`
	To   int `json:"to"`
	// Erred are the cells with keys that have had an error. A cell is the candidate's or not, so it need not be said whose error it was; and
	// it is in the set once, whichever gateways saw it how often.
	Erred CellSet `json:"erred"`
	// Refused are the cells with keys that have had a request refused as their sender's mistake.
	Refused CellSet `json:"refused,omitzero"`
	// First holds by version the first answer to each key, as far as one gateway knows: another may have counted the same key.
	First map[string]Counts `json:"first,omitempty"`
	// WithKey and WithoutKey count requests by whether they had a key.
	WithKey    int64 `json:"with_key,omitempty"`
	WithoutKey int64 `json:"without_key,omitempty"`
	// CandidateOnly and StableOnly count keys by the first mirrored request that only one of both failed or answered against the label.
	CandidateOnly int64 `json:"candidate_only,omitempty"`
	StableOnly    int64 `json:"stable_only,omitempty"`
	// Losses are of the first mirrored request of each key with a label.
	Losses PairedLosses `json:"losses,omitzero"`
}

// Split is what the error test compares: cells with errors. While the models are equally good, whether and when a cell has its first error
// does not depend on the release that answers it, so the next such cell is any of those that are left. Among them the candidate has at most
// its share when it has had more than that of the others, and at least when less: LogEvidence then grows no more than in its martingale,
// so that its bound holds. (Of n cells drawn without replacement, S the candidate's, the next factor is p/θ with probability m and
// (1-p)/(1-θ) otherwise, p = (a+S)/(a+b+n), m = (W-S)/(N-n), θ = W/N. Its mean is 1 at m = θ and linear in m; it rises if p > θ, which
// is if S > θn, which is if m < θ.)
func (k Keyed) Split() Split { return k.split(k.Erred) }

// Refusals is Split of refused requests, to which the same applies.
func (k Keyed) Refusals() Split { return k.split(k.Refused) }

func (k Keyed) split(cells CellSet) Split {
	to := max(k.From, k.To)
	return Split{
		Candidate: cells.Count(k.From, to), Stable: cells.Count(to, Cells), Share: float64(to-k.From) / float64(max(1, Cells-k.From)),
	}
}

// Copy is one that shares nothing with k.
func (k Keyed) Copy() Keyed {
	k.Erred, k.Refused, k.First = k.Erred.Union(CellSet{}), k.Refused.Union(CellSet{}), Copy(k.First)
	return k
}

// Part is what of alpha a test may use that is made for each gateway by itself, for the i-th that was seen, from 0: gateways may have counted
// the same keys, so their counts must not be added up. All parts add up to 1, however many gateways there will be.
func Part(i int) float64 { return 1 / float64((i+1)*(i+2)) }
