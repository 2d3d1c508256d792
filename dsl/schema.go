package dsl

import _ "embed"

// Schema is the JSON Schema of pipelines and environments, for editors.
//
//go:embed schema.json
var Schema []byte
