package dsl

import "reflect"

// WithDefaults returns r with what it leaves out filled in.
func (r Retry) WithDefaults() Retry {
	setDefaults(reflect.ValueOf(&r))
	r.MaxBackoff = max(r.MaxBackoff, r.Backoff)
	if len(r.Errors) == 0 {
		r.Errors = []string{"infrastructure"}
	}
	return r
}
