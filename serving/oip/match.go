package oip

import "slices"

// Match orders inputs as a model describes them and checks names, types and shapes. Its errors are Errors with status 400.
func Match(described []TensorMetadata, inputs []Tensor) ([]Tensor, error) {
	ordered := make([]Tensor, len(described))
	for i, want := range described {
		at := i // where most clients have it
		if at >= len(inputs) || inputs[at].Name != want.Name {
			at = slices.IndexFunc(inputs, func(t Tensor) bool { return t.Name == want.Name })
		}
		if at < 0 {
			return nil, Invalid("input %q is missing", want.Name)
		}
		t := inputs[at]
		if t.Datatype() != want.Datatype {
			return nil, Invalid("input %q has datatype %s, but the model needs %s", want.Name, t.Datatype(), want.Datatype)
		}
		if slices.Contains(t.Shape, 0) {
			return nil, Invalid("input %q is empty: its shape is %s", want.Name, shown(t.Shape))
		}
		if !fits(t.Shape, want.Shape) {
			return nil, Invalid("input %q has shape %s, but the model needs %v", want.Name, shown(t.Shape), want.Shape)
		}
		ordered[i] = t
	}
	if len(inputs) == len(described) { // each has a name of its own
		return ordered, nil
	}
	for _, t := range inputs {
		if !slices.ContainsFunc(described, func(want TensorMetadata) bool { return want.Name == t.Name }) {
			return nil, Invalid("the model has no input %q", t.Name)
		}
	}
	return ordered, nil
}

// fits reports whether a shape agrees with a model's, where -1 is any size.
func fits(shape, want []int64) bool {
	return slices.EqualFunc(shape, want, func(d, w int64) bool { return w < 0 || d == w })
}
