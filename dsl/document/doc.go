// Package document reads YAML documents so that every value keeps its place in the text, lays them out, and holds the findings about
// them: their form, their order and what their codes mean. It knows nothing of what the documents say.
package document
