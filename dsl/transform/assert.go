package transform

import "encoding/json"

// AssertEqual fails the step when the rows that reach it are not these, in any order. It is for tests.
type AssertEqual struct {
	// Elements are the rows expected, at most 10000.
	Elements []json.RawMessage `json:"elements"`
}
