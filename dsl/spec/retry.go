package spec

import "reflect"

// WithDefaults returns r with what it leaves out filled in.
func (r Retry) WithDefaults() Retry {
	SetDefaults(reflect.ValueOf(&r))
	r.MaxBackoff = max(r.MaxBackoff, r.Backoff)
	if len(r.Errors) == 0 {
		r.Errors = []string{"infrastructure"}
	}
	return r
}
