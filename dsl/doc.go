// Package dsl is the pipeline language: load, check, plan, resolve, evaluate, schema. It is pure: it depends only on the bytes that it is
// given. The spec structs are the single source of truth; the JSON Schema, the reference page and the CEL types are generated from them.
//
// A spec field has its final Go type. If the document has "${expr}" in its place, the field is set when the step is resolved; the type of the
// expression was checked against that of the field when the document was loaded.
package dsl

//go:generate go test . -run ^(TestSchema|TestReference)$ -update
