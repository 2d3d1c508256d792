package oip

import "slices"

// Match orders inputs as a model describes them and checks names, types and shapes. Its errors are Errors with status 400.
func Match(described []TensorMetadata, inputs []Tensor) ([]Tensor, error) {
	byName := make(map[string]Tensor, len(inputs))
	for _, t := range inputs {
		byName[t.Name] = t
	}
	ordered := make([]Tensor, len(described))
	for i, want := range described {
		t, ok := byName[want.Name]
		if !ok {
			return nil, Invalid("input %q is missing", want.Name)
		}
		delete(byName, want.Name)
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
	for name := range byName {
		return nil, Invalid("the model has no input %q", name)
	}
	return ordered, nil
}

// fits reports whether a shape agrees with a model's, where -1 is any size.
func fits(shape, want []int64) bool {
	return slices.EqualFunc(shape, want, func(d, w int64) bool { return w < 0 || d == w })
}
