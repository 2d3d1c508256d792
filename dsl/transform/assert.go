package transform

import "encoding/json"

// AssertEqual fails the step if its input rows are not exactly these, in any order, and passes them on. It is for tests.
type AssertEqual struct {
	// Elements are the rows expected, at most 10000.
	Elements []json.RawMessage `json:"elements"`
}
