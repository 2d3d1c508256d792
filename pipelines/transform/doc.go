// Package transform compiles transforms, a file each: those that see one row at a time, those that compare rows with others (cuts), of which
// it has what they make of a row and its mark, Split, and the profile.
// It knows neither Beam nor the graph of transforms.
package transform
