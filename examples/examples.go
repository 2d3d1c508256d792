// Package examples is the examples that the command line carries along.
package examples

import "embed"

// Files are the examples that `sluice init` writes.
//
//go:embed retrain/*.yaml retrain/*.py
var Files embed.FS
