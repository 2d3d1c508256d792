// Package spill holds on the disk what lies between two segments of a cleaning: the rows, the marks that stand for them in groupings, and the
// places of those that stay. The rows that are rejected on the way lie beside them, in the dead letter.
package spill
