package pipelines

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/format"
)

// Job describes one cleaning.
type Job struct {
	// Spec is resolved: each ${inputs.NAME.path} has been replaced by a folder, and RowParams has everything that its expressions read.
	Spec spec.Clean `json:"spec"`
	// Secrets maps the variables that transforms name to their values. They reach the child process only through its standard input.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Dir is the folder that relative paths in the spec are relative to. Default: the working folder of this process.
	Dir string `json:"dir,omitempty"`
	// Programs is the environment of the programs of Exec transforms. It reaches the child process as Secrets does.
	Programs Programs `json:"programs,omitzero"`
	// OutputDir is where the dataset goes: <part>/part-00000-of-00004.jsonl and schema.json. Its parent must exist and be on the same file
	// system, and OutputDir must not exist or be empty.
	OutputDir string `json:"output_dir"`
	// DeadLetterDir is where the rejected rows go, in rejected.jsonl. The same rules apply as to OutputDir. It is not created if no row was
	// rejected.
	DeadLetterDir string `json:"dead_letter_dir"`
	// ProfileFile is where the profile of the dataset goes, for columns.ParseProfile: a new file, on the file system of OutputDir. Empty: it is
	// not kept.
	ProfileFile string `json:"profile_file,omitempty"`
	// AccountFile is where the account of each source file goes, an account.FileAccount as JSON per line, sorted by name. The same rules
	// apply as to ProfileFile.
	AccountFile string `json:"account_file,omitempty"`
	// Listed is what the caller has already listed.
	Listed format.Listed `json:"listed,omitzero"`
	// Cache avoids reading again what an earlier job has read. It does not change the result.
	Cache Cache `json:"cache,omitzero"`
	// Memory bounds the memory of the child process, in bytes. Default 1 GiB. MemoryKey is the setting that errors tell the user to
	// increase.
	Memory    spec.Size `json:"memory,omitempty"`
	MemoryKey string    `json:"memory_key,omitempty"`
	// Runner is where the Beam graph runs. Default: in the child process.
	Runner Runner `json:"runner,omitzero"`
	// Parallelism is the number of workers. Default: GOMAXPROCS. It does not change the result.
	Parallelism int `json:"parallelism,omitempty"`
	// WorkDir holds spill files and unfinished output. Run creates it next to OutputDir and removes it.
	WorkDir string `json:"work_dir,omitempty"`
}

// defaultMemory is the memory limit of a job that sets none, and defaultMemoryKey the setting for it.
const (
	defaultMemory    = 1 << 30
	defaultMemoryKey = "`clean.memory` in the environment"
)
