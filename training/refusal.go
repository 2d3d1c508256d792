package training

import (
	"errors"
	"fmt"
)

// Refusal is the kind of an error of a Pool: why it does not provide what was requested. Pools wrap it with what was requested and what is
// available, and callers decide by it whether to ask again or to use something else. An error of a pool without a Refusal is a problem on
// the way, such as an API that does not answer.
type Refusal string

// The kinds of refusals.
const (
	// ErrNoCapacity: no such machines are available now, or the pool's limits leave none. Asking again later may succeed.
	ErrNoCapacity Refusal = "no capacity now"
	// ErrPrice: the capacity costs more now than the limits allow. Asking again later may succeed.
	ErrPrice Refusal = "too expensive now"
	// ErrQuota: the provider does not allow this account or namespace so much. Others may use less of it later, or somebody may raise it.
	ErrQuota Refusal = "quota exceeded"
	// ErrNotStarted: the nodes exist and cannot be used, for example because a registry does not answer or a node did not boot. This may
	// pass, but each attempt costs money.
	ErrNotStarted Refusal = "the nodes did not start"
	// ErrPermission: these credentials do not allow it. Asking again does not help.
	ErrPermission Refusal = "permission missing"
	// ErrInvalid: the request can never succeed, for example because the pool is described incorrectly or an image does not exist.
	ErrInvalid Refusal = "invalid"
)

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Lasts reports whether asking again does not help.
func (r Refusal) Lasts() bool { return r == ErrPermission || r == ErrInvalid }

// RefusalOf returns the kind of an error of a pool; "" where it has none.
func RefusalOf(err error) Refusal {
	var r Refusal
	errors.As(err, &r)
	return r
}

// Refusals with an additional meaning.
var (
	// ErrQueued is an ErrNoCapacity of a pool in which gangs can queue: this gang keeps its place. Asking again continues to wait; Release
	// gives up the place.
	ErrQueued = fmt.Errorf("%w: the gang is waiting in a queue", ErrNoCapacity)
	// ErrTooLarge is an ErrInvalid: the pool is smaller than the smallest gang that was asked for, or its nodes lack what each must have.
	ErrTooLarge = fmt.Errorf("%w: larger than the pool", ErrInvalid)
	// ErrNoAgent is an ErrInvalid: the pool has no agent to start on its nodes.
	ErrNoAgent = fmt.Errorf("%w: the node agent is missing", ErrInvalid)
)
