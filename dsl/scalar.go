package dsl

import "time"

// Expr is a CEL expression that is evaluated where its key's documentation says, never by interpolation.
type Expr string

// Duration is a span of time, written "90s", "1h30m".
type Duration time.Duration

// Share is a part of a whole between 0 and 1, written with a percent sign: "10%".
type Share float64

// Size is a number of bytes, written "16GiB", "500MB" or as a plain number.
type Size int64
