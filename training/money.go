package training

import "math"

// slack is by which part of a limit in dollars sums of prices may exceed it: they are not exact (three times 0.1 is more than 0.3).
const slack = 1e-9

// Affordable reports whether prices add up to no more than a limit, in dollars an hour.
func Affordable(sum, limit float64) bool { return sum <= limit*(1+slack) }

// NodesFor is how many nodes at a price, more than 0, a limit has room for beside what has been spent, all in dollars an hour.
func NodesFor(limit, spent, price float64) int {
	return int(min(max(0, (limit*(1+slack)-spent)/price), math.MaxInt32))
}
