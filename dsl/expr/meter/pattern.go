package meter

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// maxPattern is the most bytes, and the most instructions, of a regular expression: a few characters that repeat repetitions stand
// for millions of instructions.
const maxPattern = 10_000

// maxPatterns is how many bytes and instructions the regular expressions may have that are kept.
const maxPatterns = 50 * maxPattern

// pattern is a regular expression, or why it is none.
type pattern struct {
	*regexp.Regexp
	read     uint64 // what reading it costs
	size     uint64 // in instructions
	tooLarge bool
	err      error
}

// patterns are the regular expressions that were compiled: those of a row are the same in many rows.
var patterns = struct {
	sync.RWMutex
	all  map[string]*pattern
	size uint64
}{all: map[string]*pattern{}}

// patternOf returns the regular expression of a text.
func patternOf(text string) *pattern {
	if len(text) > maxPattern {
		return &pattern{tooLarge: true, err: fmt.Errorf("a regular expression of %d bytes is too large: the maximum is %d", len(text), maxPattern)}
	}
	patterns.RLock()
	p := patterns.all[text]
	patterns.RUnlock()
	if p != nil {
		return p
	}
	p = compilePattern(text)
	size := uint64(len(text)) + p.size
	if p.tooLarge {
		size = uint64(len(text)) // it was not compiled
	}
	patterns.Lock()
	defer patterns.Unlock()
	if patterns.size += size; patterns.size > maxPatterns {
		clear(patterns.all)
		patterns.size = size
	}
	patterns.all[text] = p
	return p
}

func compilePattern(text string) *pattern {
	p := &pattern{read: uint64(len(text)) / 10}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		p.err = err
		return p
	}
	p.size = instructions(tree) + 2 // what it begins and ends with
	if p.tooLarge = p.size > maxPattern; p.tooLarge {
		p.err = fmt.Errorf("a regular expression of %d instructions is too large: the maximum is %d; use fewer repetitions", p.size, maxPattern)
		return p
	}
	p.Regexp, p.err = regexp.Compile(text)
	return p
}

// instructions are how many a regular expression is compiled to, at most. They are counted without compiling it, which may take all
// memory.
func instructions(tree *syntax.Regexp) uint64 {
	var n uint64
	for _, sub := range tree.Sub {
		n = sum(n, instructions(sub))
	}
	switch tree.Op {
	case syntax.OpLiteral:
		n = uint64(len(tree.Rune))
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n += uint64(len(tree.Sub))
	case syntax.OpCapture, syntax.OpStar:
		n += 2
	case syntax.OpPlus, syntax.OpQuest:
		n++
	case syntax.OpRepeat:
		if tree.Max < 0 {
			n = product(n, uint64(tree.Min)+1) + 2
		} else {
			n = product(n, uint64(tree.Max)) + uint64(tree.Max-tree.Min)
		}
	default:
		n = 1
	}
	return max(n, 1)
}

// cost is what looking for the pattern takes at most, in the units of CEL. Each of its instructions may be tried at each byte: that takes
// 5 ns (see BenchmarkPattern), where an operation has 100. To begin takes as long as 10 bytes do.
func (p *pattern) cost(text ref.Val) uint64 {
	if p.tooLarge {
		return ^uint64(0)
	}
	return 1 + p.read + product(p.size, textSize(text)+10)/20
}

// match ends the evaluation when it would cost more than limit.
func (p *pattern) match(text ref.Val, limit uint64) ref.Val {
	if p.cost(text) > limit {
		panic(errCancelled)
	}
	if p.err != nil {
		return types.WrapErr(p.err)
	}
	return types.Bool(p.MatchString(stringOf(text)))
}

// Matching declares `matches` as CEL has it, in place of the one in CEL's library, whose calls cannot be limited.
func Matching(limit uint64) (library *env.LibrarySubset, declared cel.EnvOption) {
	args := []*cel.Type{cel.StringType, cel.StringType}
	return env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches)), cel.Function(overloads.Matches,
		cel.Overload(overloads.Matches, args, cel.BoolType), cel.MemberOverload(overloads.MatchesString, args, cel.BoolType),
		cel.SingletonBinaryBinding(func(text, regex ref.Val) ref.Val {
			if text.Type() != types.StringType || regex.Type() != types.StringType {
				return types.MaybeNoSuchOverloadErr(text)
			}
			return patternOf(stringOf(regex)).match(text, limit)
		}))
}

// constantPatterns find out when an expression is compiled what is wrong with its constant patterns, and spare them the search at each
// call. They go by overload, before those of CEL, which go by function and limit nothing.
func constantPatterns(limit uint64) (all []*interpreter.RegexOptimization) {
	for _, overload := range []string{overloads.Matches, overloads.MatchesString} {
		all = append(all, &interpreter.RegexOptimization{
			Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
				p := patternOf(text)
				if p.err != nil {
					return nil, p.err
				}
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
					if args[0].Type() != types.StringType {
						return types.MaybeNoSuchOverloadErr(args[0])
					}
					return p.match(args[0], limit)
				}), nil
			},
		})
	}
	return all
}
