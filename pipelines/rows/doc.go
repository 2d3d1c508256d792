// Package rows is what all parts of a cleaning share: the row, its JSON and digests, where it was read, why one is rejected or dropped, and
// how the configs of transforms are decoded.
package rows
