// Package spec is what the two documents hold, as data: pipelines with their steps, environments, the spec and the output of each kind,
// and how a step ended. It has their defaults and their JSON, for whoever reads or writes a record. It knows neither YAML nor CEL; package
// dsl reads, checks and resolves.
package spec
