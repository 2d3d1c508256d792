package spec

import (
	"encoding/json"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Clean is a Beam pipeline over rows. Its names are Beam YAML's where Beam YAML has them.
type Clean struct {
	// Inputs are artifacts; ${inputs.NAME.path} in a read transform is the folder they are brought to.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty" dsl:"names"`
	// Type of the graph: in a chain (default) each transform takes the rows of the one before, from a ReadFrom* to a WriteTo*; in a
	// composite each says in `input` whose rows it takes.
	Type string `json:"type,omitempty" dsl:"enum=chain|composite,literal"`
	// Read is short for a first transform that reads files, by how their names end: .jsonl and .ndjson (a row a line), .json (a row a
	// file), .csv, .tsv, .txt, .parquet or .avro, and .gz, .zst or .bz2 after it.
	Read Paths `json:"read,omitempty" dsl:"single"`
	// Source is the first transform of a chain, where it is not among `transforms`.
	Source *Transform `json:"source,omitempty"`
	// Transforms, in any order if they are a composite. Every output must be taken by something.
	Transforms []Transform `json:"transforms,omitempty"`
	// Sink is the last transform of a chain, where it is not among `transforms`.
	Sink *Transform `json:"sink,omitempty"`
	// Write is short for a last transform that writes JSON lines, CSV, text, Parquet or Avro.
	Write string `json:"write,omitempty" dsl:"enum=json|csv|text|parquet|avro,literal"`
	// ExtraTransforms stand beside a chain, and say in `input` whose rows they take.
	ExtraTransforms []Transform `json:"extra_transforms,omitempty"`
	// Profile adds computed columns to the profile of the dataset, which has all fields of its rows.
	Profile ProfileSpec `json:"profile,omitzero"`
	// Drift says which dataset this one is compared with.
	Drift DriftSpec `json:"drift,omitzero"`
}

// Transform is one node of a cleaning's graph, or a group of them: a `chain` or a `composite` of transforms of its own. What is inside a
// group is counted under OUTER/INNER; a name in it means another inside, or `input` what comes to the group.
type Transform struct {
	// Type is the transform's name (see the transform specs), chain or composite.
	Type string `json:"type" dsl:"literal"`
	// Name labels it in rules and errors. Default: the type.
	Name string `json:"name,omitempty" dsl:"literal"`
	// Input names the transforms whose rows it takes, all together when there are several: NAME, or NAME.OUTPUT for a named output. In a
	// group, {a: NAME} is known by the name `a` inside.
	Input TransformInputs `json:"input,omitempty" dsl:"single,literal"`
	// InputNames are what those inside a group call its inputs.
	InputNames []string `json:"input_names,omitempty" dsl:"-"`
	// Config is checked against the type's own spec struct.
	Config json.RawMessage `json:"config,omitempty"`
	// Source is the first transform of a group that is a chain, where it is not among `transforms`.
	Source *Transform `json:"source,omitempty"`
	// Transforms are those in a group.
	Transforms []Transform `json:"transforms,omitempty"`
	// Sink is the last transform of a group that is a chain, where it is not among `transforms`.
	Sink *Transform `json:"sink,omitempty"`
	// ExtraTransforms stand beside the chain in a group that is one.
	ExtraTransforms []Transform `json:"extra_transforms,omitempty"`
	// Output says which of a group's rows others take: NAME, or {a: NAME, b: NAME.OUTPUT} for outputs that are known outside as GROUP.a and
	// GROUP.b. Default: what the last of a chain hands on; of a composite nothing.
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
