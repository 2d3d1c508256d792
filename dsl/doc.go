// Package dsl is the pipeline language: load, check, plan, resolve, evaluate, schema. It is pure: it sees the bytes it is given and
// nothing else. The spec structs in this package are the only truth; the JSON Schema, the reference page and the CEL types are
// generated from them.
//
// A spec field holds its final Go type. Where the document has "${expr}" in its place, the field is filled when the step is
// resolved, after the expression's type was checked against the field's at load time.
package dsl

//go:generate go test . -run ^(TestSchema|TestReference)$ -update
