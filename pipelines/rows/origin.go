package rows

// Origin is where a row was read.
type Origin struct {
	Name   string // of the source file
	Offset int64  // of the row's first byte in it
}
