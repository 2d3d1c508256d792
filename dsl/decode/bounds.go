package decode

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
)

// CheckBounds checks enums, minima and maxima of a resolved spec, whose keys begin with path: a value that came from an expression was not
// seen at load.
func CheckBounds(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return CheckBounds(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Struct {
				if err := CheckBounds(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		for _, f := range spec.KeysOf(v.Type()) {
			value := v.FieldByIndex(f.Index)
			if err := checkBound(value, f); err != nil {
				return fmt.Errorf("%s: %w", path+f.Name, err)
			}
			if err := CheckBounds(value, path+f.Name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkBound(v reflect.Value, f spec.Key) error {
	if v.IsZero() && !f.Required {
		return nil
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
	case reflect.Float64:
		x = v.Float()
	case reflect.String:
		if len(f.Rules.Enum) > 0 && !slices.Contains(f.Rules.Enum, v.String()) {
			return fmt.Errorf("%q is not one of %v", v.String(), f.Rules.Enum)
		}
		return nil
	default:
		return nil
	}
	if f.Rules.Min != nil && x < *f.Rules.Min || f.Rules.Max != nil && x > *f.Rules.Max {
		return fmt.Errorf("%s is out of range", spec.FormatDouble(x))
	}
	return nil
}
