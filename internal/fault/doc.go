// Package fault says what kind of thing went wrong, and whose it is to mend.
package fault
