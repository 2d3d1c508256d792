package pipelines

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl"
)

// plan is a compiled chain.
type plan struct {
	// sourceName and sinkName are the names of the first and the last transform.
	sourceName, sinkName string

	// masks are the kinds of personal data that are counted, and rules the names that dropped rows are counted under.
	masks []string
	// checked are the transforms whose counts decide whether the job succeeds.
	checked []rowTransform
	rules   []string

	source   reader
	segments []segment
	split    splitter
	shards   int
}

// segment is what lies between two cuts of the chain: row transforms, and then either a Deduplicate or, in the last, the write.
type segment struct {
	transforms []rowTransform
	// dedup is nil in the last segment.
	dedup *deduper
}

// compilePlan compiles a chain. Its errors are of type invalid and name the transform.
func compilePlan(job Job) (*plan, error) {
	params, err := dsl.RowParams(job.ParamTypes, job.Params)
	if err != nil {
		return nil, fault(TypeInvalid, "%w", err)
	}
	chain, err := named(job.Spec.Transforms)
	if err != nil {
		return nil, err
	}
	p := &plan{
		sourceName: chain[0].Name, sinkName: chain[len(chain)-1].Name,
		segments: make([]segment, 1), split: allRows,
	}
	given := givens{params: params, secrets: job.Secrets, session: sessionOf(job.WorkDir)}
	for i, t := range chain {
		if err := p.add(t, i == 0, i == len(chain)-1, given); err != nil {
			typ := TypeInvalid
			if e := (*Error)(nil); errors.As(err, &e) {
				typ = e.Type
			}
			return nil, fault(typ, "transform %s (%s): %w", t.Name, t.Type, err)
		}
	}
	_, err = compileColumns(job, params)
	return p, err
}

// named gives each transform its default name and makes sure that counts under a name are of one transform.
func named(transforms []dsl.Transform) ([]dsl.Transform, error) {
	if len(transforms) < 2 {
		return nil, fault(TypeInvalid, "a clean step needs at least a transform that reads and one that writes, such as ReadFromJson and WriteToJson")
	}
	chain := slices.Clone(transforms)
	seen := map[string]bool{}
	for i := range chain {
		t := &chain[i]
		if t.Name == "" {
			t.Name = t.Type
		}
		if seen[t.Name] {
			return nil, fault(TypeInvalid, "two transforms are named %s; give each its own `name`, rows are counted by it", t.Name)
		}
		seen[t.Name] = true
	}
	return chain, nil
}

// add compiles one transform of the chain into the plan.
func (p *plan) add(t dsl.Transform, first, last bool, given givens) (err error) {
	reads, writes := strings.HasPrefix(t.Type, "ReadFrom"), strings.HasPrefix(t.Type, "WriteTo")
	switch {
	case reads != first:
		return fmt.Errorf("the first transform, and no other, must be one that reads, such as ReadFromJson")
	case writes != last:
		return fmt.Errorf("the last transform, and no other, must be one that writes, such as WriteToJson")
	case p.split.name != "" && !last:
		return fmt.Errorf("only a transform that writes may follow a Split")
	case reads:
		p.source, err = compileReader(t)
		return err
	}
	switch t.Type {
	case "WriteToJson":
		return p.addSink(t)
	case "Split":
		p.split, err = compileSplit(t, given.params)
		return err
	case "Deduplicate":
		d, err := compileDedup(t, given.params)
		if err != nil {
			return err
		}
		p.rules = append(p.rules, t.Name)
		p.segments[len(p.segments)-1].dedup = d
		p.segments = append(p.segments, segment{})
		return nil
	}
	c, err := compileTransform(t, given)
	if err != nil {
		return err
	}
	for _, rule := range c.rules {
		if slices.Contains(p.rules, rule) {
			return fmt.Errorf("another transform counts rows under %q too; give this one a `name` of its own", rule)
		}
		p.rules = append(p.rules, rule)
	}
	p.masks = append(p.masks, c.masks...)
	if c.assertion != nil || c.threshold != nil {
		p.checked = append(p.checked, c)
	}
	end := &p.segments[len(p.segments)-1]
	end.transforms = append(end.transforms, c)
	return nil
}

// maxShards bounds the files of one part.
const maxShards = 10_000

func (p *plan) addSink(t dsl.Transform) error {
	c, err := decodeConfig[dsl.WriteToJSON](t)
	if err != nil {
		return err
	}
	if c.Shards < 0 || c.Shards > maxShards {
		return fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, maxShards)
	}
	p.shards = max(c.Shards, 1)
	return nil
}

// splitter assigns rows to parts.
type splitter struct {
	// name is the transform's; empty when the chain has no Split.
	name  string
	parts []partShare
	key   *dsl.RowProgram
}

// partShare is a part with the upper end of its interval of the unit line.
type partShare struct {
	name  string
	upper float64
}

// allRows is the splitter of a chain without Split.
var allRows = splitter{parts: []partShare{{name: "all", upper: 1}}}

func compileSplit(t dsl.Transform, params map[string]any) (splitter, error) {
	c, err := decodeConfig[dsl.Split](t)
	if err != nil {
		return splitter{}, err
	}
	s := splitter{name: t.Name}
	if s.key, err = dsl.CompileRow(c.Key, params); err != nil {
		return splitter{}, fmt.Errorf("key: %w", err)
	}
	// By name: a map has no order, and who is in which part must not depend on one.
	sum := 0.0
	for name, share := range c.Parts {
		if !plainName(name) {
			return splitter{}, fmt.Errorf("parts: %q cannot name a folder; use letters, digits, - and _", name)
		}
		if share <= 0 {
			return splitter{}, fmt.Errorf("parts: %s must have more than 0%%", name)
		}
		s.parts = append(s.parts, partShare{name: name})
	}
	slices.SortFunc(s.parts, func(a, b partShare) int { return strings.Compare(a.name, b.name) })
	for i := range s.parts {
		sum += float64(c.Parts[s.parts[i].name])
		s.parts[i].upper = sum
	}
	if math.Abs(sum-1) > 1e-9 {
		return splitter{}, fmt.Errorf("parts: the shares add up to %g%%, not 100%%", 100*sum)
	}
	return s, nil
}

func plainName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// part returns the part a row is in: the one whose interval the hash of its key falls into.
func (s splitter) part(r row) (string, error) {
	if s.key == nil {
		return s.parts[0].name, nil
	}
	v, err := s.key.Eval(r)
	if err != nil {
		return "", reject("expression", "key: %v", err)
	}
	text, err := encodeRow(row{"split": v})
	if err != nil {
		return "", err
	}
	at := unit(digestOf(text))
	for _, p := range s.parts[:len(s.parts)-1] {
		if at < p.upper {
			return p.name, nil
		}
	}
	return s.parts[len(s.parts)-1].name, nil
}
