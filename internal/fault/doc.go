// Package fault says of an error what kind of thing went wrong: the spec, the data, or the machine.
package fault
