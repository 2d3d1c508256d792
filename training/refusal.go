package training

import (
	"errors"
	"fmt"
)

// Refusal is the kind of an error of a Pool: why it does not give what it was asked for. Pools wrap it with what was wanted and what there is,
// and all that follows, from asking again to buying something else, is decided by it. An error of a pool without one is trouble on the way to
// what the pool asks, such as an API that does not answer.
type Refusal string

// The kinds of refusals.
const (
	// ErrNoCapacity: there are no such machines now, or none that the pool's limits leave. Asking again later may succeed.
	ErrNoCapacity Refusal = "no capacity now"
	// ErrPrice: capacity costs more now than may be paid for it. Asking again later may succeed.
	ErrPrice Refusal = "too expensive now"
	// ErrQuota: whoever has the machines does not let this account or namespace have so much. Others may use less of it, or somebody may raise it.
	ErrQuota Refusal = "quota exceeded"
	// ErrNotStarted: the nodes are there and cannot be used: a registry does not answer, say, or a node did not boot. It may pass, but machines that
	// are tried cost money.
	ErrNotStarted Refusal = "the nodes did not start"
	// ErrPermission: these credentials may not do that, however often they are asked with.
	ErrPermission Refusal = "permission missing"
	// ErrInvalid: not like this, however often it is asked: the pool is not described right, say, or there is no such image.
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

// Refusals that are told from others of their kind.
var (
	// ErrQueued is an ErrNoCapacity of a pool that lets gangs queue: this one keeps its place. Asking again goes on waiting, Release gives
	// the place up.
	ErrQueued = fmt.Errorf("%w: the gang is waiting in a queue", ErrNoCapacity)
	// ErrTooLarge is an ErrInvalid: the pool is smaller than the smallest gang that was asked for, or its nodes lack what each must have.
	ErrTooLarge = fmt.Errorf("%w: larger than the pool", ErrInvalid)
	// ErrNoAgent is an ErrInvalid: the pool has no agent to put on its nodes.
	ErrNoAgent = fmt.Errorf("%w: the node agent is missing", ErrInvalid)
)
