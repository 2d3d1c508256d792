// Package stats holds what a gateway counts, and the sequential tests that compare a candidate with the release that serves. The
// tests are pure functions of cumulative counts, valid at every look: looking more often does not make a false alarm likelier.
package stats

// Counts are one version's outcomes, over requests that chance assigned to it.
type Counts struct {
	Requests int64 `json:"requests"`
	// Failures are inference errors and timeouts.
	Failures int64 `json:"failures"`
	// Wrong are answers that differ from the request's label.
	Wrong int64 `json:"wrong"`
	// Labelled are the answers to requests with a label.
	Labelled int64 `json:"labelled,omitempty"`
	// Refused counts requests whose label is no class of the model; they are not among Requests.
	Refused int64 `json:"refused,omitempty"`
	// ClientErrors counts requests that the release refused as their sender's mistake, and Left those whose client left before an answer; they
	// are not among Requests either.
	ClientErrors int64 `json:"client_errors,omitempty"`
	Left         int64 `json:"left,omitempty"`
	// Losses are of answers to requests with a label, where the release says what the largest loss is.
	Losses  Losses    `json:"losses,omitzero"`
	Latency Histogram `json:"latency"`
	// FirstToken is how long the first token of answers took that were streamed, and PerToken each further one, by the average of an answer.
	FirstToken Histogram `json:"first_token,omitzero"`
	PerToken   Histogram `json:"per_token,omitzero"`
}

// Errors are failures and wrong answers.
func (c Counts) Errors() int64 { return c.Failures + c.Wrong }

// Plus adds two sets of counts over different requests.
func (c Counts) Plus(other Counts) Counts {
	return Counts{
		Requests: c.Requests + other.Requests,
		Failures: c.Failures + other.Failures,
		Wrong:    c.Wrong + other.Wrong,
		Labelled: c.Labelled + other.Labelled,
		Refused:  c.Refused + other.Refused,

		ClientErrors: c.ClientErrors + other.ClientErrors,
		Left:         c.Left + other.Left,

		Losses:  c.Losses.Plus(other.Losses),
		Latency: c.Latency.Plus(other.Latency),

		FirstToken: c.FirstToken.Plus(other.FirstToken),
		PerToken:   c.PerToken.Plus(other.PerToken),
	}
}

// Copy is counts by version that share nothing with others.
func Copy(counts map[string]Counts) map[string]Counts {
	out := make(map[string]Counts, len(counts))
	for version, c := range counts {
		out[version] = Counts{}.Plus(c) // Plus copies the histograms
	}
	return out
}

// Shadow compares a candidate's answers to mirrored requests with those that were given.
type Shadow struct {
	// Version is the candidate's.
	Version string `json:"version"`
	// Mirrored requests were answered by both.
	Mirrored int64 `json:"mirrored"`
	// Samples are the mirrored requests that neither side failed to serve, so that there was something to compare; and those the
	// candidate alone failed, which count as no agreement.
	Samples int64 `json:"samples"`
	// Agree counts samples with the same answer: the same top class, or the same text.
	Agree int64 `json:"agree"`
	// NoAnswer counts mirrored requests that both sides served with outputs that hold no answer to agree on. They are samples when
	// their numbers could be compared.
	NoAnswer int64 `json:"no_answer,omitempty"`
	// MaxAbs is the largest absolute difference of any output element.
	MaxAbs float64 `json:"max_abs"`
	// BothErr, CandidateOnly and StableOnly count mirrored requests by who failed or answered against the label.
	BothErr       int64 `json:"both_err"`
	CandidateOnly int64 `json:"candidate_only"`
	StableOnly    int64 `json:"stable_only"`
	// Dropped requests were to be mirrored, but the queue was full.
	Dropped int64 `json:"dropped"`
	// Losses are of both answers to requests with a label.
	Losses PairedLosses `json:"losses,omitzero"`
	// Latency is the candidate's.
	Latency Histogram `json:"latency"`
}

// Plus adds two comparisons over different requests.
func (s Shadow) Plus(other Shadow) Shadow {
	return Shadow{
		Version:       other.Version,
		Mirrored:      s.Mirrored + other.Mirrored,
		Samples:       s.Samples + other.Samples,
		Agree:         s.Agree + other.Agree,
		NoAnswer:      s.NoAnswer + other.NoAnswer,
		MaxAbs:        max(s.MaxAbs, other.MaxAbs),
		BothErr:       s.BothErr + other.BothErr,
		CandidateOnly: s.CandidateOnly + other.CandidateOnly,
		StableOnly:    s.StableOnly + other.StableOnly,
		Dropped:       s.Dropped + other.Dropped,
		Losses:        s.Losses.Plus(other.Losses),
		Latency:       s.Latency.Plus(other.Latency),
	}
}

// Snapshot is everything a gateway has counted. Counts only grow within an epoch.
type Snapshot struct {
	Target string `json:"target"`
	// Epoch identifies the life of the gateway's process; a new one starts counting from nothing.
	Epoch string `json:"epoch"`
	// Beat is how often the gateway has reported: one whose beats have stopped has ended, or cannot reach the store.
	Beat int64 `json:"beat,omitempty"`
	// Revision is the routing revision that is served now.
	Revision int64 `json:"revision"`
	// Active are the versions that get requests now, copies included.
	Active []string `json:"active,omitempty"`
	// Closed is the mark of a gateway that has ended in order and counts nothing more.
	Closed bool `json:"closed,omitempty"`
	// Revisions holds the counts of the newest revisions served in this epoch, oldest first.
	Revisions []Revision `json:"revisions"`
}

// Revision is what was counted while one routing revision was served.
type Revision struct {
	Revision int64 `json:"revision"`
	// Weights are the shares of the traffic that chance gave to the versions.
	Weights map[string]float64 `json:"weights,omitempty"`
	// Versions by name.
	Versions map[string]Counts `json:"versions"`
	// Started is how many requests and copies chance has given to a release, and Settled how many of these, in the order of their start, have
	// been counted without a gap: all of the first Settled have ended.
	Started int64 `json:"started,omitempty"`
	Settled int64 `json:"settled,omitempty"`
	// Shadow is set when the revision mirrors requests.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Keyed is set when the revision's traffic is sticky.
	Keyed *Keyed `json:"keyed,omitempty"`
}

// At returns the counts of a routing revision, empty ones when it was not served in this epoch.
func (s Snapshot) At(revision int64) Revision {
	for _, r := range s.Revisions {
		if r.Revision == revision {
			return r
		}
	}
	return Revision{Revision: revision}
}
