// Package nearest suggests the word that was meant by one that is unknown.
package nearest
