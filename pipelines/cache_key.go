package pipelines

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/format"
)

// Cache keeps what the first segments made of each piece of a file, so that a later job need not read files that it knows.
type Cache struct {
	// Dir is its folder, and the file system that of OutputDir. Several jobs may use it at a time. Empty: there is none.
	Dir string `json:"dir,omitempty"`
	// Limit bounds the folder in bytes. What has not been used for longest goes first.
	Limit int64 `json:"limit,omitempty"`
	// Digests holds, as a JSON object by path, the digests of files whose content the caller knows. Other files are known by their
	// path, size and time of change, and objects by their version.
	Digests string `json:"digests,omitempty"`
	// Inputs are the digests of folders that paths in the spec lie in.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Secrets are the fingerprints of the job's secrets by variable: keys are in the names of files, and must not give values away to
	// who tries some.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Programs is a digest of what the programs of Exec transforms depend on, beside their command. Empty: it is not known.
	Programs string `json:"programs,omitempty"`
}

// addCacheKeys gives each piece of the input the key that its result is cached under. What is not known well enough has none.
func (p *plan) addCacheKeys(job Job, sources map[int][]numberedSource) error {
	_, bytes := sizeOf(sources)
	program := programID()
	if job.Cache.Dir == "" || bytes > job.Cache.Limit || !job.Runner.inProcess() || program == "" {
		return nil
	}
	digests := map[string]string{}
	if job.Cache.Digests != "" {
		text, err := os.ReadFile(job.Cache.Digests)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &digests); err != nil {
			return fmt.Errorf("the digests of the input: %w", err)
		}
	}
	graph, err := transform.Graph(&job.Spec)
	if err != nil {
		return err
	}
	for _, s := range p.segments {
		if p.nodes[s.entry].source.Format == nil {
			continue
		}
		k := keyWriter{Hash: sha256.New(), job: job}
		k.write("piece 1", program)
		for _, at := range p.within(s.entry) {
			n := &p.nodes[at]
			k.transform(graph[at].Transform, n.source.Format != nil)
			k.write(at, n.name, n.blames, n.rejects, n.next, n.outputs)
		}
		if !k.unknown {
			addPieceKeys(hex.EncodeToString(k.Sum(nil)), sources[s.entry], digests)
		}
	}
	return nil
}

func addPieceKeys(segment string, units []numberedSource, digests map[string]string) {
	for n := range units {
		source := &units[n].Source
		source.Keys = map[int]string{}
		for i, piece := range source.Pieces {
			content := contentOf(piece.File, digests)
			if content == "" {
				continue
			}
			k := keyWriter{Hash: sha256.New()}
			k.write(segment, piece.File.Name, content, piece.Start, piece.End)
			source.Keys[i] = hex.EncodeToString(k.Sum(nil))
		}
	}
}

// contentOf names a file's content; empty when nothing is known of it.
func contentOf(f format.File, digests map[string]string) string {
	if d := digests[f.Path]; d != "" {
		return d
	}
	if f.IsObject() {
		if f.Version == "" {
			return ""
		}
		return fmt.Sprintf("object %q in %+v of %d bytes, version %q", f.Path, f.Bucket, f.Size, f.Version)
	}
	info, err := os.Stat(f.Path)
	path, absErr := filepath.Abs(f.Path)
	if err != nil || absErr != nil || info.Size() != f.Size {
		return ""
	}
	return fmt.Sprintf("file %q of %d bytes at %d", path, info.Size(), info.ModTime().UnixNano())
}

// within returns the nodes of the segment that begins at an entry, with its ends, in their order.
func (p *plan) within(entry int) []int {
	in := map[int]bool{entry: true}
	for at := entry; at < len(p.nodes); at++ { // each node comes after those that it takes rows from
		n := &p.nodes[at]
		if !in[at] {
			continue
		}
		takers := [][]int{n.outputs[n.rejects]} // what an end rejects stays in the segment
		if n.end == nil {
			takers = append(slices.Collect(maps.Values(n.outputs)), n.next)
		}
		for _, next := range slices.Concat(takers...) {
			in[next] = true
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// keyWriter hashes what a result depends on.
type keyWriter struct {
	hash.Hash
	job Job
	// unknown: there is something of which not all is known.
	unknown bool
}

func (k *keyWriter) write(values ...any) {
	text, err := json.Marshal(values)
	k.unknown = k.unknown || err != nil
	fmt.Fprintf(k, "%d %s\n", len(text), text) //nolint:errcheck // a hash takes everything
}

// transform writes what a transform does, without where its input lies.
func (k *keyWriter) transform(t spec.Transform, reads bool) {
	config := map[string]json.RawMessage{}
	if len(t.Config) > 0 && json.Unmarshal(t.Config, &config) != nil {
		k.unknown = true
	}
	if reads {
		delete(config, "path")
	}
	text, err := json.Marshal(config)
	if err != nil {
		k.unknown = true
	}
	known := string(text)
	for _, dir := range slices.Sorted(maps.Keys(k.job.Cache.Inputs)) {
		known = strings.ReplaceAll(known, dir, k.job.Cache.Inputs[dir])
	}
	k.write(t.Type, known)
	switch {
	case transform.Is[transform.Decontaminate](t.Type):
		k.unknown = k.unknown || known == string(text) // it compares with files that nothing is known of
	case transform.Is[transform.Exec](t.Type):
		k.unknown = k.unknown || k.job.Cache.Programs == ""
		k.write(k.job.Cache.Programs)
	case transform.Is[transform.MaskPII](t.Type):
		var key string
		if config["key"] != nil {
			k.unknown = json.Unmarshal(config["key"], &key) != nil || k.job.Cache.Secrets[key] == "" || k.unknown
			k.write(k.job.Cache.Secrets[key])
		}
	}
	if strings.Contains(known, "params") {
		k.write(k.job.Spec.RowParams)
	}
}

// programID tells one build of this program from another; empty when it does not know.
func programID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	section := f.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil {
		return ""
	}
	return hex.EncodeToString(note)
}
