// Package transform compiles transforms, with a file for each: those that process one row at a time; cuts, which compare rows with each
// other, as far as spilling a row and its mark; Split; and the profile. It does not depend on Beam or on the graph of transforms.
package transform
