package template

import (
	"errors"
	"testing"
)

func TestRead(t *testing.T) {
	type inner struct {
		Port  int32  `json:"port"`
		Proto string `json:"proto"`
	}
	type embedded struct {
		Node map[string]string `json:"node"`
	}
	var into struct {
		embedded `json:",inline"`
		Ports    []inner `json:"ports"`
		One      inner   `json:"one"`
		Host     bool    `json:"host"`
	}
	type list = []any
	type object = map[string]any
	for name, tt := range map[string]struct {
		document object
		says     []string
		fields   []string
	}{
		"nothing":            {},
		"right":              {document: object{"ports": list{object{"port": 1}}, "node": object{"a": "b"}, "host": true}},
		"unknown":            {object{"Ports": list{}}, []string{`unknown field "Ports"`}, []string{"Ports"}},
		"unknown below":      {object{"ports": list{object{}, object{"prot": "tcp"}}}, []string{`unknown field "ports[1].prot"`}, []string{"ports[1].prot"}},
		"two unknown":        {object{"a": 1, "one": object{"b": 1}}, []string{`unknown field "a"`, `unknown field "one.b"`}, []string{"a", "one.b"}},
		"a string":           {object{"one": object{"port": "http"}}, []string{"one.port: it is of the type string, but has to be a whole number"}, []string{"one.port"}},
		"a fraction":         {object{"one": object{"port": 1.5}}, []string{"one.port: it is of the type number 1.5, but has to be a whole number"}, []string{"one.port"}},
		"no string":          {object{"one": object{"proto": 1}}, []string{"one.proto: it is of the type number, but has to be a string"}, []string{"one.proto"}},
		"no list":            {object{"ports": object{}}, []string{"ports: it is of the type object, but has to be a list"}, []string{"ports"}},
		"no mapping":         {object{"one": list{}}, []string{"one: it is of the type array, but has to be a mapping"}, []string{"one"}},
		"no truth":           {object{"host": "yes"}, []string{"host: it is of the type string, but has to be true or false"}, []string{"host"}},
		"no mapping, inline": {object{"node": "a"}, []string{"node: it is of the type string, but has to be a mapping"}, []string{"node"}},
	} {
		errs := Errors(Read(tt.document, &into))
		if len(errs) != len(tt.says) {
			t.Errorf("%s: %v, want %q", name, errs, tt.says)
			continue
		}
		for i, err := range errs {
			wrong, ok := errors.AsType[*FieldError](err)
			if !ok || err.Error() != tt.says[i] || wrong.Field != tt.fields[i] {
				t.Errorf("%s: %v of %v, want %q of %s", name, err, wrong, tt.says[i], tt.fields[i])
			}
		}
	}
}
