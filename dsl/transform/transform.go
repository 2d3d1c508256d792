// Package transform is what the language knows of the transforms of a clean step. A file for each has its config, what is checked of that,
// the shape of the rows that it hands on and the names that it counts by; transform.go lists them. Together they make a graph, through
// which rows are followed from files to files. How rows are transformed is the business of pipelines/transform.
package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// info is a line of the list of transforms: what the language knows of one beside the methods of its config.
type info struct {
	// config is one with nothing in it. For its methods see Checker, RowChecker, Shaper and Counter.
	config any
	// takes is what the fields hold that the config names.
	takes fieldValues
	// drops: the rows that it drops are counted under its own name.
	drops bool
}

// fieldValues is what a transform works on.
type fieldValues int

const (
	anything fieldValues = iota
	takesTexts
	takesLists
)

// transforms are all that a clean step can have, by the types that documents have for them. No other code writes these types but
// pipelines/transform, which lists how rows are transformed. Types and keys are Beam YAML's where Beam YAML has them; expressions are CEL
// over `row` and `params`.
var transforms = map[string]info{
	"ReadFromJson":       {config: ReadFromJSON{}},
	"ReadFromText":       {config: ReadFromText{}},
	"ReadFromParquet":    {config: ReadFromParquet{}},
	"ReadFromAvro":       {config: ReadFromAvro{}},
	"ReadFromCsv":        {config: ReadFromCSV{}},
	"MapToFields":        {config: MapToFields{}},
	"AssertEqual":        {config: AssertEqual{}},
	"Explode":            {config: Explode{}, takes: takesLists, drops: true},
	"Exec":               {config: Exec{}},
	"Combine":            {config: Combine{}, drops: true},
	"Flatten":            {config: Flatten{}},
	"Partition":          {config: Partition{}},
	"Filter":             {config: Filter{}, drops: true},
	"DecodeMail":         {config: DecodeMail{}, takes: takesTexts},
	"Decontaminate":      {config: Decontaminate{}, takes: takesTexts, drops: true},
	"DetectLanguage":     {config: DetectLanguage{}, takes: takesTexts},
	"HtmlToText":         {config: HTMLToText{}, takes: takesTexts},
	"NormalizeText":      {config: NormalizeText{}, takes: takesTexts},
	"Deduplicate":        {config: Deduplicate{}, drops: true},
	"MaskPII":            {config: MaskPII{}, takes: takesTexts},
	"ValidateWithSchema": {config: ValidateWithSchema{}},
	"Profile":            {config: ProfileRows{}},
	"QualityFilter":      {config: QualityFilter{}, takes: takesTexts},
	"Sample":             {config: Sample{}, drops: true},
	"Split":              {config: Split{}},
	"WriteToAvro":        {config: WriteToAvro{}},
	"WriteToCsv":         {config: WriteToCSV{}},
	"WriteToJson":        {config: WriteToJSON{}},
	"WriteToParquet":     {config: WriteToParquet{}},
	"WriteToText":        {config: WriteToText{}},
}

// Types are the types of transforms that there are, sorted.
func Types() []string { return slices.Sorted(maps.Keys(transforms)) }

// Config returns the config of a transform with nothing in it, or nil when there is no transform of that type.
func Config(typ string) any { return transforms[typ].config }

// Is reports whether C is the config of a transform of that type: Is[Exec](t.Type).
func Is[C any](typ string) bool {
	_, ok := Config(typ).(C)
	return ok
}

// TypeOf returns the type of the transform whose config is a C, as documents write it.
func TypeOf[C any]() string {
	for typ := range transforms {
		if Is[C](typ) {
			return typ
		}
	}
	var config C
	panic(fmt.Sprintf("transform: %T is the config of no transform", config)) // a mistake in the code, found by any test
}

// IsReader reports whether a transform of that type reads files.
func IsReader(typ string) bool { return strings.HasPrefix(typ, "ReadFrom") }

// IsWriter reports whether a transform of that type writes files.
func IsWriter(typ string) bool { return strings.HasPrefix(typ, "WriteTo") }
