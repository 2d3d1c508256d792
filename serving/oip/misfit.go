package oip

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Misfit is the error for an element that is not of the datatype it must have.
type Misfit struct {
	Datatype Datatype
	// Value is the element in JSON.
	Value json.RawMessage
}

// Error implements error.
func (m *Misfit) Error() string {
	return fmt.Sprintf("data contains %s, but %s takes %s", m.Found(), m.Datatype, m.Datatype.takes())
}

// Wanted is what the datatype takes, with its name: "numbers (FP32)".
func (m *Misfit) Wanted() string { return fmt.Sprintf("%s (%s)", m.Datatype.takes(), m.Datatype) }

// Kind is the JSON type of the element.
func (m *Misfit) Kind() string {
	switch m.Value[0] {
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	case '"':
		return "text"
	case '{':
		return "object"
	case '[':
		return "list"
	}
	return "number"
}

// maxShown bounds a value in an error, in bytes.
const maxShown = 40

// Found is the element in words: "a boolean (true)".
func (m *Misfit) Found() string {
	value := Cut(string(m.Value), maxShown)
	switch kind := m.Kind(); kind {
	case "null":
		return "null"
	case "text":
		return "text (" + value + ")"
	case "object":
		return "an object (" + value + ")"
	default:
		return "a " + kind + " (" + value + ")"
	}
}

// takes says which elements fit.
func (d Datatype) takes() string {
	switch bits := strings.TrimLeft(string(d), "UINT"); {
	case d == Bool:
		return "booleans"
	case d == Bytes:
		return "text"
	case strings.HasPrefix(string(d), "UINT"):
		return "integers of " + bits + " bits from 0 on"
	case strings.HasPrefix(string(d), "INT"):
		return "integers of " + bits + " bits"
	}
	return "numbers"
}
