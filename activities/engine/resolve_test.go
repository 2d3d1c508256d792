package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
)

// TestUsers: what a person decides as is user:NAME, and a list of those who may is never empty because a group is.
func TestUsers(t *testing.T) {
	program, diags := dsl.Compile(
		document.File{Name: "p.yaml", Source: []byte("sluice: pipeline/v1\nname: p\nsteps: {a: {run: {command: [echo]}}}\n")},
		document.File{Name: "e.yaml", Source: []byte(`sluice: environment/v1
name: e
people: {"group:data": {users: [bert, "user:anna"]}, "group:leads": {oidc: ml-leads}}
`)}, nil)
	if program == nil {
		t.Fatal(diags.Text(false))
	}
	tests := []struct{ who, want []string }{
		{nil, nil},
		{[]string{"user:eve"}, []string{"user:eve"}},
		{[]string{"group:data"}, []string{"user:anna", "user:bert"}},
		{[]string{"user:anna", "group:data"}, []string{"user:anna", "user:bert"}},
		{[]string{"group:leads"}, []string{"oidc:ml-leads"}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, users(&Submitted{Program: program}, test.who)); diff != "" {
			t.Errorf("%v: -want +got:\n%s", test.who, diff)
		}
	}
}
