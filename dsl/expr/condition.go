package expr

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Holds evaluates a bool expression and returns what its references were.
func (e *Expression) Holds(names cel.Activation) (holds bool, values map[string]any, err error) {
	v, evaluation, err := e.watch(names)
	values = e.seen(evaluation)
	if err != nil {
		return false, values, e.explain(err)
	}
	b, ok := v.(types.Bool)
	return ok && bool(b), values, nil
}

// seen collects the values that an evaluation had for the expression's references. What was absent says so; what a short circuit
// left alone is left out.
func (e *Expression) seen(in *evaluation) map[string]any {
	if in == nil {
		return nil
	}
	values := make(map[string]any, len(e.Refs))
	for _, r := range e.Refs {
		v, ok := in.Value(r.id)
		if !ok {
			continue
		}
		values[r.String()] = shown(v)
	}
	return values
}

func shown(v ref.Val) any {
	switch v := v.(type) {
	case *types.Optional:
		if !v.HasValue() {
			return "absent"
		}
		return shown(v.GetValue())
	case *types.Err:
		return "absent"
	}
	native, err := JSONValue(v)
	if err != nil {
		return v.Type().TypeName()
	}
	return brief(native)
}

// maxShown is how long a value is shown whole, as JSON: what is shown is kept in records and goes through histories.
const maxShown = 1000

// brief is a value, or what it is where that would be long.
func brief(native any) any {
	if raw, err := json.Marshal(native); err != nil || len(raw) <= maxShown {
		return native
	}
	switch v := native.(type) {
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("a map of %d", len(v))
	case string:
		return strings.ToValidUTF8(v[:maxShown], "") + "…"
	}
	return native
}
