// Package spill stores on disk what is passed between two segments of a cleaning: the rows, the marks that represent them in groupings, and
// the places of the rows to keep. It also stores the rejected rows, in the dead letter.
package spill
