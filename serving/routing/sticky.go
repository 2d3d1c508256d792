package routing

import (
	"fmt"
	"math"
	"regexp"
)

// Sticky says that the requests of one key get the same release, for as long as a rollout does not move the key.
type Sticky struct {
	// Header, or Field, has the key: a header of the request, or a parameter or input of it.
	Header string `json:"header,omitempty"`
	Field  string `json:"field,omitempty"`
	// Held is the largest share of the traffic that the candidate had before this revision. The keys in it had the candidate already.
	Held float64 `json:"held,omitempty"`
}

// headerName is what HTTP allows and gRPC's metadata, too.
var headerName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// validate checks the sticky traffic of a target; nil is valid.
func (s *Sticky) validate(target string) error {
	switch {
	case s == nil:
	case (s.Header == "") == (s.Field == ""):
		return fmt.Errorf("the sticky traffic of target %s has its key in the header %q and the field %q; set only one of them", target, s.Header, s.Field)
	case s.Header != "" && !headerName.MatchString(s.Header):
		return fmt.Errorf("the sticky traffic of target %s has its key in the header %q, which is not a valid name", target, s.Header)
	case math.IsNaN(s.Held) || s.Held < 0 || s.Held > 1:
		return fmt.Errorf("the sticky traffic of target %s: the share %v, which the candidate had before, is not between 0 and 1", target, s.Held)
	}
	return nil
}
