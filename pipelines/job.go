package pipelines

import "github.com/sluiceml/sluice/dsl/spec"

// Job is one cleaning.
type Job struct {
	// Spec is resolved: each ${inputs.NAME.path} in it is a folder by now, and RowParams are all that its expressions read.
	Spec spec.Clean `json:"spec"`
	// Secrets are values by the variable that a transform names. They reach the child process by its standard input alone.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Dir is the folder that relative paths in the spec are relative to. Default: this process's.
	Dir string `json:"dir,omitempty"`
	// Programs is what the programs of Exec transforms run with; it reaches the child process as Secrets do.
	Programs Programs `json:"programs,omitzero"`
	// OutputDir becomes the dataset's folder: <part>/part-00000-of-00004.jsonl and schema.json. It must be on
	// the file system of its parent, which exists, and either not exist or be empty.
	OutputDir string `json:"output_dir"`
	// DeadLetterDir becomes the folder of the rejected rows, in rejected.jsonl. As OutputDir; it does not appear when no row was
	// rejected.
	DeadLetterDir string `json:"dead_letter_dir"`
	// ProfileFile becomes the profile of the dataset, for profile.Parse: a new file beside OutputDir. Empty: it is not kept.
	ProfileFile string `json:"profile_file,omitempty"`
	// AccountFile becomes the account of each source file, a FileAccount as JSON on each line, by name: as ProfileFile.
	AccountFile string `json:"account_file,omitempty"`
	// Cache spares reading what an earlier job has read. The result does not depend on it.
	Cache Cache `json:"cache,omitzero"`
	// Memory bounds the child process in bytes. Default 1 GiB. MemoryKey is where a user sets it.
	Memory    spec.Size `json:"memory,omitempty"`
	MemoryKey string    `json:"memory_key,omitempty"`
	// Runner says where the Beam graph runs. Default: in the child process.
	Runner Runner `json:"runner,omitzero"`
	// Parallelism is the number of workers. Default: one for each CPU. The result does not depend on it.
	Parallelism int `json:"parallelism,omitempty"`
	// WorkDir holds spill files and what is not whole yet. Run makes it beside OutputDir and removes it.
	WorkDir string `json:"work_dir,omitempty"`
}

// defaultMemory is the bound when a job has none, and defaultMemoryKey where it is set.
const (
	defaultMemory    = 1 << 30
	defaultMemoryKey = "`clean.memory` in the environment"
)
