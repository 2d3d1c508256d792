// Package spill holds on the disk what lies between two segments of a cleaning: the rows, the marks that stand for them in groupings, and the
// places of those that stay.
package spill
