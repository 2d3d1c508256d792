// Package transform compiles the transforms that see one row at a time, a file each, and what Split, Combine and the profile compute of rows.
// It knows neither Beam nor the graph of transforms.
package transform
