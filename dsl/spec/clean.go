package spec

import (
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Clean is a Beam pipeline over rows. It uses the names of Beam YAML where Beam YAML has them.
type Clean struct {
	// Inputs are artifacts; ${inputs.NAME.path} in a read transform is the folder to which the artifact is copied.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty" dsl:"names"`
	// Type of the graph: in a chain (default) each transform takes the rows of the previous one, from a ReadFrom* to a WriteTo*; in a
	// composite each transform names its `input`.
	Type string `json:"type,omitempty" dsl:"enum=chain|composite,literal"`
	// Read is short for a first transform that reads files, by their extensions: .jsonl and .ndjson (one row per line), .json (one row per
	// file), .csv, .tsv or .txt, optionally followed by .gz, .zst or .bz2; .parquet or .avro, which are compressed inside.
	Read Paths `json:"read,omitempty" dsl:"single"`
	// Source is the first transform of a chain, if it is not in `transforms`.
	Source *Transform `json:"source,omitempty"`
	// Transforms, in any order in a composite. Every output must be the input of another transform.
	Transforms []Transform `json:"transforms,omitempty"`
	// Sink is the last transform of a chain, if it is not in `transforms`.
	Sink *Transform `json:"sink,omitempty"`
	// Write is short for a last transform that writes JSON lines, CSV, text, Parquet or Avro.
	Write string `json:"write,omitempty" dsl:"enum=json|csv|text|parquet|avro,literal"`
	// ExtraTransforms are transforms that are not part of the chain, and name their `input`.
	ExtraTransforms []Transform `json:"extra_transforms,omitempty"`
	// Profile adds computed columns to the profile of the dataset. The profile has all fields of the rows.
	Profile ProfileSpec `json:"profile,omitzero"`
	// Drift is the dataset with which this one is compared.
	Drift DriftSpec `json:"drift,omitzero"`
	Placement
	// Runtime of a node of a pool. The image must contain Sluice itself, of the worker's version. Default: the pool's.
	Runtime Runtime `json:"runtime,omitzero" dsl:"literal"`
	// RowParams are the parameters that expressions over rows read: a cleaning does not have those of the run.
	RowParams map[string]RowParam `json:"row_params,omitempty" dsl:"-"`
}

// RowParam is a parameter as expressions over rows see it, with Type and Items of its declaration. One that is absent has no value.
type RowParam struct {
	Type  string          `json:"type"`
	Items string          `json:"items,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Transform is one node of a cleaning's graph, or a group of them: a `chain` or a `composite` of transforms of its own. What is inside a
// group is counted under OUTER/INNER; a name in it means another inside, or `input` what comes to the group.
type Transform struct {
	// Type is the type of the transform (see "Transforms of a clean step"), chain or composite.
	Type string `json:"type" dsl:"literal"`
	// Name is the name of the transform in rules and errors. Default: the type.
	Name string `json:"name,omitempty" dsl:"literal"`
	// Input names the transforms whose rows it takes, merged if there are several: NAME, or NAME.OUTPUT for a named output. For a group,
	// {a: NAME} makes the input available as `a` inside.
	Input TransformInputs `json:"input,omitempty" dsl:"single,literal"`
	// InputNames are what those inside a group call its inputs.
	InputNames []string `json:"input_names,omitempty" dsl:"-"`
	// Config is checked against the type's own spec struct.
	Config json.RawMessage `json:"config,omitempty"`
	// Source is the first transform of a chain group, if it is not in `transforms`.
	Source *Transform `json:"source,omitempty"`
	// Transforms are the transforms of a group.
	Transforms []Transform `json:"transforms,omitempty"`
	// Sink is the last transform of a chain group, if it is not in `transforms`.
	Sink *Transform `json:"sink,omitempty"`
	// ExtraTransforms are transforms of a chain group that are not part of its chain.
	ExtraTransforms []Transform `json:"extra_transforms,omitempty"`
	// Output is the output of a group: NAME, or {a: NAME, b: NAME.OUTPUT} for outputs that are GROUP.a and GROUP.b outside. Default: for a
	// chain the output of its last transform, for a composite nothing.
	Output GroupOutputs `json:"output,omitempty" dsl:"literal"`
}

// CleanOutput is what a clean step hands on.
type CleanOutput struct {
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	Rows    Rows         `json:"rows"`
	// Rules counts what each named rule dropped.
	Rules map[string]Rule `json:"rules"`
	// Rejected counts rows by the reason they were rejected for.
	Reasons map[string]int64 `json:"reasons"`
	// Splits counts rows per split.
	Splits map[string]int64 `json:"splits"`
	// Masked counts the personal data that MaskPII found, by kind.
	Masked map[string]int64 `json:"masked"`
	// Profile describes the columns of what was kept.
	Profile Profile `json:"profile"`
	// Profiles describe the columns of the rows that came to the Profile transforms, by their names.
	Profiles map[string]Profile `json:"profiles"`
	// Schema is how the fields differ from before.
	Schema SchemaChange `json:"schema"`
	// Drift is how far the columns have moved; absent when there is nothing to compare with.
	Drift *Drift `json:"drift,omitempty"`
	// Duplicates counts what all Deduplicate transforms together dropped.
	Duplicates Duplicates `json:"duplicates"`
	// DeadLetter holds the rejected rows; zero when there are none.
	DeadLetter artifact.Ref `json:"dead_letter,omitzero" dsl:"artifact=dataset"`
	// Account holds the account of each source file: account.jsonl.
	Account artifact.Ref `json:"account,omitzero" dsl:"artifact=dataset"`
	// Statistics is the digest of the blob that holds the whole profile, which later datasets are compared with.
	Statistics string `json:"statistics,omitempty" dsl:"-"`
}

// Rows is the account of a cleaning: Read = Kept + Dropped + Rejected, of the whole and of each source file, or the step fails.
type Rows struct {
	// Read counts the rows of the input, and those of Exploded and Copied.
	Read     int64 `json:"read"`
	Kept     int64 `json:"kept"`
	Dropped  int64 `json:"dropped"`
	Rejected int64 `json:"rejected"`
	// Reused counts rows whose source file was read by an earlier run, with the same transforms, and not again.
	Reused int64 `json:"reused"`
	// Exploded counts the rows that Explode made of one beyond the first.
	Exploded int64 `json:"exploded"`
	// Copied counts the rows that were made because several transforms take the same: one for each taker beyond the first.
	Copied int64 `json:"copied"`
}

// Rule is one named rule's effect.
type Rule struct {
	Dropped int64 `json:"dropped"`
}

// GroupOutputs are the outputs of a group by name, of which one has none when the group says NAME alone.
type GroupOutputs map[string]string

// TransformInputs name what a transform takes rows from: a transform by its name, or one of its outputs as NAME.OUTPUT.
type TransformInputs []string

// WithInputs returns the spec with the folders of its inputs in the place of the tokens for them.
func (spec Clean) WithInputs(dirs map[string]string) (Clean, error) {
	raw, err := Encode(spec)
	if err != nil {
		return spec, err
	}
	quoted := make(map[string]string, len(dirs))
	for name, path := range dirs { // a path is put inside JSON strings
		text, err := Encode(path)
		if err != nil {
			return spec, err
		}
		quoted[name] = string(text[1 : len(text)-1])
	}
	filled, err := inputpath.Replace(string(raw), quoted)
	if err != nil {
		return spec, err
	}
	var out Clean
	err = json.Unmarshal([]byte(filled), &out)
	return out, err
}
