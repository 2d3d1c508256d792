package spec

// Param declares a parameter of the pipeline.
type Param struct {
	// Type: string, int, double, bool, duration, timestamp (2026-01-31T12:00:00Z), enum, list, map; or dataset or model, which only a
	// parent pipeline can set.
	Type string `json:"type" dsl:"enum=string|int|double|bool|duration|timestamp|list|map|enum|dataset|model"`
	// Items is the type of the elements of a list or a map: string (default), int, double or bool.
	Items string `json:"items,omitempty" dsl:"enum=string|int|double|bool"`
	// Values are the values of an enum.
	Values []string `json:"values,omitempty"`
	// Default value. Without it, the parameter is required.
	Default any `json:"default,omitempty"`
	// Min and Max are the limits of an int or a double.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Pattern is a regular expression (RE2) that a string must match as a whole.
	Pattern string `json:"pattern,omitempty" dsl:"raw"`
	// Required: false lets a parameter without a default be absent; it is read as `params.?NAME`.
	Required *bool `json:"required,omitempty"`
	// Secret makes the value the name of a secret of the environment. It can be used only under a step's `secrets`.
	Secret bool `json:"secret,omitempty"`
}

// Optional reports whether the parameter may be absent.
func (p Param) Optional() bool { return p.Default == nil && p.Required != nil && !*p.Required }
