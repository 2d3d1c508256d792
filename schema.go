// Package sluice is the files of the repository's root that the command line carries along.
package sluice

import "embed"

// Schema is the JSON Schema of pipelines and environments, for editors.
//
//go:embed schema.json
var Schema []byte

// Examples are the examples that `sluice init` writes.
//
//go:embed examples/retrain/*.yaml examples/retrain/*.py
var Examples embed.FS
