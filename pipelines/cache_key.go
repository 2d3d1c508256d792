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

// Cache keeps what the first segments produced from each piece of a file, so that later jobs need not read unchanged files again.
type Cache struct {
	// Dir is the cache's folder. It must be on the file system of OutputDir. Several jobs may use it at once. Empty: no cache.
	Dir string `json:"dir,omitempty"`
	// Limit bounds the folder's size in bytes. The least recently used entries are removed first. Input larger than the limit is not
	// cached.
	Limit int64 `json:"limit,omitempty"`
	// Digests is the path of a JSON object that maps file paths to the digests of files whose content the caller knows. Other files are
	// identified by path, size, inode and the times of their last change, and objects by their version.
	Digests string `json:"digests,omitempty"`
	// Inputs maps folders to the digests of their content, for paths in the spec that lie in them.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Secrets maps the variables of the job's secrets to fingerprints of their values. Cache keys are used as file names, so they must not
	// let anyone find a value by trying candidates.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Programs is a digest of everything that the programs of Exec transforms depend on besides their command. Empty: unknown, and segments
	// with an Exec are not cached.
	Programs string `json:"programs,omitempty"`
}

// addCacheKeys sets the cache key of each piece of the input. A piece gets no key if something that its result depends on is unknown.
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
			k.write(segment, piece.File.Name, piece.File.Partitions, content, piece.Start, piece.End)
			source.Keys[i] = hex.EncodeToString(k.Sum(nil))
		}
	}
}

// contentOf identifies a file's content. It is empty if the content cannot be identified.
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
	path, err := filepath.Abs(f.Path)
	if err != nil || f.Stamp == (format.Stamp{}) {
		return ""
	}
	return fmt.Sprintf("file %q of %d bytes, %+v", path, f.Size, f.Stamp) // with the time of change: programs such as tar set the other
}

// within returns the nodes of the segment that begins at an entry, including its ends, in plan order.
func (p *plan) within(entry int) []int {
	in := map[int]bool{entry: true}
	for at := entry; at < len(p.nodes); at++ { // a node comes after those it reads from
		n := &p.nodes[at]
		if !in[at] {
			continue
		}
		takers := [][]int{n.outputs[n.rejects]} // rows that an end rejects stay in the segment
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
	// unknown is set if the result depends on something that cannot be hashed completely.
	unknown bool
}

func (k *keyWriter) write(values ...any) {
	text, err := json.Marshal(values)
	k.unknown = k.unknown || err != nil
	fmt.Fprintf(k, "%d %s\n", len(text), text) //nolint:errcheck // a hash takes everything
}

// transform hashes a transform's configuration, without the location of its input.
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
	known := k.job.Cache.withDigests(string(text))
	k.write(t.Type, known)
	switch {
	case transform.Is[transform.Decontaminate](t.Type):
		var against spec.Paths
		k.unknown = json.Unmarshal(config["against"], &against) != nil || k.unknown
		for _, pattern := range against {
			digest := k.job.Cache.inputOf(pattern)
			k.unknown = k.unknown || digest == ""
			k.write(digest)
		}
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

// withDigests replaces the folders of inputs in a transform's configuration, which is JSON, with the digests of their content.
func (c *Cache) withDigests(config string) string {
	dirs := slices.SortedFunc(maps.Keys(c.Inputs), func(a, b string) int { return len(b) - len(a) }) // "held" also begins "held_out"
	var pairs []string
	for _, dir := range dirs {
		text, _ := json.Marshal(dir)
		pairs = append(pairs, strings.Trim(string(text), `"`), c.Inputs[dir])
	}
	return strings.NewReplacer(pairs...).Replace(config)
}

// inputOf returns the digest of the input whose folder a path lies in. It is empty if there is none.
func (c *Cache) inputOf(path string) string {
	for dir, digest := range c.Inputs {
		if strings.HasPrefix(path, dir+"/") {
			return digest
		}
	}
	return ""
}

// programID identifies the build of this program. It is empty if the build is unknown.
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
