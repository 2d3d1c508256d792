package spec

import (
	"cmp"
	"strings"
)

// ProfileSpec says what a profile describes beside the fields of the rows.
type ProfileSpec struct {
	// Columns are computed from each kept row, for the profile only: {len: size(row.text)}. The value is null if the expression cannot be
	// evaluated. A column with the name of a field replaces that field in the profile. A name has lower-case letters, digits and _.
	Columns map[string]Expr `json:"columns" dsl:"names"`
}

// DriftSpec says what a dataset is compared with.
type DriftSpec struct {
	// Against is `last` (default; the same step of the pipeline's last accepted run) or the name of a published dataset, in the version
	// that is current when the run begins.
	Against string `json:"against,omitempty" dsl:"default=last"`
}

// LastAccepted is the baseline of a drift that names no dataset.
const LastAccepted = "last"

// Profile describes the rows that were kept.
type Profile struct {
	// Columns are the fields of the rows and the computed columns.
	Columns map[string]ColumnProfile `json:"columns"`
}

// ColumnProfile describes the values of a column. Min to P99 are of numbers the numbers, of timestamps and dates the seconds since 1970, of
// durations their seconds, of texts their lengths in characters and of bytes in bytes, of bools 1 and 0, of lists and objects the numbers of
// items; absent when all values are null. NaN and infinities are left out. They are exact but for the quantiles,
// which are within 0.4% (whole numbers below 512: exact; more than 1,024 buckets wide: less so). They do not depend on the order of
// the rows.
type ColumnProfile struct {
	// Types are those that its values have, nulls left out: boolean, integer, number, decimal, date, timestamp, local timestamp, duration,
	// string, bytes, array, object.
	Types []string `json:"types"`
	// Nulls counts the rows that have null or nothing there.
	Nulls int64 `json:"nulls"`
	// Distinct is how many different values there are, nulls left out: exact up to 1,000, above with a standard error of 1.6%.
	Distinct int64 `json:"distinct"`
	// Min, Mean and Max are exact.
	Min  *float64 `json:"min"`
	Mean *float64 `json:"mean"`
	Max  *float64 `json:"max"`
	// P01 is what 1% of the rows are not above, and so on.
	P01 *float64 `json:"p01"`
	P05 *float64 `json:"p05"`
	P25 *float64 `json:"p25"`
	P50 *float64 `json:"p50"`
	P75 *float64 `json:"p75"`
	P95 *float64 `json:"p95"`
	P99 *float64 `json:"p99"`
	// Top are the ten most frequent values; empty when there are more than 1,000 different ones.
	Top []TopValue `json:"top"`
}

// typeWords are types for people, each with what of such a value the numbers describe.
var typeWords = map[string]string{
	"boolean": "bool", "string": "text (length)", "bytes": "bytes (length)", "array": "list (size)", "object": "object (size)",
	"date": "date (seconds since 1970)", "timestamp": "timestamp (seconds since 1970)", "local timestamp": "local timestamp (seconds since 1970)",
	"duration": "duration (seconds)",
}

// TypeWords are the column's types for people.
func (c ColumnProfile) TypeWords() string {
	words := make([]string, len(c.Types))
	for i, typ := range c.Types {
		words[i] = cmp.Or(typeWords[typ], typ)
	}
	return strings.Join(words, " or ")
}

// TopValue is a value with how often it is there.
type TopValue struct {
	// Value is a text as it is, anything else as JSON; no more than the first 100 bytes.
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// SchemaChange says how the fields of the rows differ from those of the dataset that drift is measured against. Without one nothing
// has changed.
type SchemaChange struct {
	Changed bool `json:"changed"`
	// Added and Removed are names of fields.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	// Retyped are the fields that hold other types than before, in words: "n: integer, now integer or string".
	Retyped []string `json:"retyped"`
}

// Drift is how far the columns have moved from those of an earlier dataset.
type Drift struct {
	// Against is the digest of that dataset.
	Against string `json:"against"`
	// Columns are those that both datasets have.
	Columns map[string]ColumnDrift `json:"columns"`
}

// Moved returns how far the columns have moved; nil where there is nothing to compare with but the dataset itself, as when it is reused.
func (o CleanOutput) Moved() *Drift {
	if o.Drift != nil && o.Drift.Against != "" && o.Drift.Against == o.Dataset.Digest {
		return nil
	}
	return o.Drift
}

// ColumnDrift compares two distributions. They are divided at the deciles of the earlier one, and what is null is a part of its own;
// where the earlier one has texts of at most 100 different values, each ten times in the mean, they are divided by these and what is
// none of them, and other texts by length.
type ColumnDrift struct {
	// PSI is the population stability index: the sum of (new - old) * ln(new / old) over the parts, with shares of at least 0.0001. By
	// custom 0.1 is small and 0.25 is large (Siddiqi, Credit Risk Scorecards, 2006).
	PSI float64 `json:"psi" dsl:"min=0"`
	// JS is the Jensen-Shannon divergence over the parts with logarithms to base 2: 0 equal, 1 nothing in common (Lin, 1991).
	JS float64 `json:"js" dsl:"min=0,max=1"`
	// KS is the Kolmogorov-Smirnov statistic, the largest distance between the two cumulative distributions of what is not null: 0 to 1.
	// Of texts it is that of their lengths.
	KS float64 `json:"ks" dsl:"min=0,max=1"`
}

// Duplicates counts what the Deduplicate transforms of the step dropped.
type Duplicates struct {
	Dropped int64 `json:"dropped"`
	// Groups is how many rows stand for others that were dropped.
	Groups int64 `json:"groups"`
}
