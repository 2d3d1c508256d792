// Package transform is what the language knows of the transforms of a clean step. A file for each has its config, what is checked of that,
// the shape of the rows that it hands on and the names that it counts by; transform.go lists them. Together they make a graph, through
// which rows are followed from files to files. How rows are transformed is the business of pipelines/transform.
package transform
