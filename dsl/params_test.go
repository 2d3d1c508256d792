package dsl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

const typedParams = `sluice: pipeline/v1
name: p
params:
  since: {type: timestamp}
  window: {type: duration, default: 24h}
  regions: {type: list, default: [eu]}
  sizes: {type: list, items: int, default: []}
  rates: {type: map, items: double, default: {lr: 1}}
  size: {type: enum, values: [small, large], default: small}
  tag: {type: string, pattern: "v[0-9]+", default: v1}
  note: {type: string, required: false}
  token: {type: string, secret: true, default: npm-token}
  mail: {type: dataset, required: false}
  least: {type: int, required: false}
  share: {type: double, required: false}
steps:
  a:
    run:
      command:
        - "${params.since} ${params.window} ${params.since - params.window}"
        - "${params.regions.join('+')} ${params.sizes.map(s, string(s * 2)).join('+')} ${params.rates['lr'] / 2.0}"
        - "${params.size} ${params.tag} ${params.?note.orValue('none')} ${params.?least.orValue(1)} ${params.?share.orValue(1.0)} ${params.?mail.digest.orValue('none')}"
    secrets: {TOKEN: "${params.token}"}
`

func compileParams(t *testing.T) *Program {
	t.Helper()
	p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(typedParams)}, document.File{Name: "env.yaml", Source: []byte(searchEnv)}, nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return p
}

func messages(diags document.Diagnostics) []string {
	var out []string
	for _, d := range diags {
		out = append(out, d.Message)
	}
	return out
}

func TestTypedParams(t *testing.T) {
	p := compileParams(t)
	defaults := map[string]any{
		"since": "2026-01-31T11:00:00Z", "window": "24h", "regions": []any{"eu"}, "sizes": []any{}, "rates": map[string]any{"lr": 1.0},
		"size": "small", "tag": "v1", "token": "npm-token",
	}
	tests := []struct {
		name  string
		given map[string]string
		want  map[string]any // beside the defaults
		errs  []string
	}{
		{"defaults", map[string]string{"since": "2026-01-31T12:00:00+01:00"}, nil, nil},
		{"lists", map[string]string{"regions": "a, b,c", "sizes": "[1, 2]"}, map[string]any{"regions": []any{"a", "b", "c"}, "sizes": []any{int64(1), int64(2)}}, nil},
		{"lists the other way", map[string]string{"regions": `["a,b"]`, "sizes": "3"}, map[string]any{"regions": []any{"a,b"}, "sizes": []any{int64(3)}}, nil},
		{"empty lists", map[string]string{"regions": "", "sizes": "[]"}, map[string]any{"regions": []any{}, "sizes": []any{}}, nil},
		{"a map", map[string]string{"rates": `{"a": 1, "b": 0.5}`}, map[string]any{"rates": map[string]any{"a": 1.0, "b": 0.5}}, nil},
		{"scalars", map[string]string{"window": "90m", "size": "large", "tag": "v20", "note": "a=b"}, map[string]any{"window": "1h30m", "size": "large", "tag": "v20", "note": "a=b"}, nil},
		{"leading zeros", map[string]string{"sizes": "1,-010", "least": "007", "share": "00.5"}, nil, []string{
			"the parameter `least` is `007`, which is read as different numbers by different YAML parsers: write 7",
			"the parameter `share` is `00.5`, which is read as different numbers by different YAML parsers: write 0.5",
			"the parameter `sizes` holds `-010`, which is read as different numbers by different YAML parsers: write -10",
		}},
		{"underscores", map[string]string{"sizes": "1,1_0", "least": "1_000", "share": "-1_0.5"}, nil, []string{
			"the parameter `least` is `1_000`, which is read as different numbers by different YAML parsers: write 1000",
			"the parameter `share` is `-1_0.5`, which is read as different numbers by different YAML parsers: write -10.5",
			"the parameter `sizes` holds `1_0`, which is read as different numbers by different YAML parsers: write 10",
		}},
		{"hexadecimal", map[string]string{"least": "0x_1", "share": "0x1p4"}, nil, []string{
			"the parameter `least` is \"0x_1\", but must be an int", "the parameter `share` is \"0x1p4\", but must be a double",
		}},
		{"a key twice", map[string]string{"rates": `{"a": 1, "b": 2, "a": 3}`}, nil, []string{"the parameter `rates` has the key `a` twice"}},
		{"zeros elsewhere", map[string]string{"sizes": "0,100", "least": "-0", "share": "1e03", "tag": "v010", "note": "010"}, map[string]any{
			"sizes": []any{int64(0), int64(100)}, "least": int64(0), "share": 1000.0, "tag": "v010", "note": "010",
		}, nil},
		{"wrong", map[string]string{
			"since": "yesterday", "window": "1 day", "regions": "[1", "sizes": "1,x", "rates": "[1]", "size": "medium", "tag": "xv1", "token": "aws", "mail": "x",
		}, nil, []string{
			"the parameter `mail` is a dataset, which only a parent pipeline can pass",
			`the parameter ` + "`rates`" + ` is "[1]", but must be a map, written as JSON: {"a": 1}`,
			"the parameter `regions` is not a list: unexpected EOF; write [1, 2] as JSON, or 1,2",
			"the parameter `since` is \"yesterday\", but must be a timestamp such as 2026-01-31T12:00:00Z",
			"the parameter `size` is \"medium\", but must be one of small, large",
			"the parameter `sizes` holds \"x\", but must be a list of int",
			"the parameter `tag` is \"xv1\", but must match v[0-9]+",
			"the parameter `token` names the secret \"aws\", which the environment `lab` does not have",
			"the parameter `window` is \"1 day\", but must be a duration such as 90s or 1h30m",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.given["since"] == "" {
				tt.given["since"] = "2026-01-31T11:00:00Z"
			}
			got, diags := p.Params(tt.given)
			if diff := cmp.Diff(tt.errs, messages(diags)); diff != "" {
				t.Fatal(diff)
			}
			if tt.errs != nil {
				return
			}
			want := map[string]any{}
			for _, values := range []map[string]any{defaults, tt.want} {
				for name, v := range values {
					want[name] = v
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestChildParams: what a parent gives is held to the same declarations, and travels as JSON.
func TestChildParams(t *testing.T) {
	p := compileParams(t)
	ref := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:ab", Bytes: 5, Files: 1}
	params, diags := p.ChildParams(map[string]any{
		"since": "2026-01-31T12:00:00Z", "sizes": []any{1.0, 2.0}, "rates": map[string]any{"lr": int64(3)}, "mail": ref, "note": "n",
	})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	var travelled map[string]any
	if err := json.Unmarshal(raw, &travelled); err != nil {
		t.Fatal(err)
	}
	want := []string{"2026-01-31T12:00:00Z 24h 2026-01-30T12:00:00Z", "eu 2+4 1.5", "small v1 n 1 1 sha256:ab"}
	for _, params := range []map[string]any{params, travelled} {
		r, err := p.Resolve("a", spec.Vars{Params: params})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, command(t, r)); diff != "" || r.Secrets["TOKEN"] != "npm-token" {
			t.Error(diff, r.Secrets)
		}
		if again, diags := p.ChildParams(params); len(diags) > 0 || len(again) != len(params) {
			t.Error(diags)
		}
	}
	_, diags = p.ChildParams(map[string]any{"since": 5.0, "sizes": []any{1.5}, "mail": map[string]any{"type": "model", "digest": "x"}, "size": true})
	if got := strings.Join(messages(diags), "\n"); !strings.Contains(got, "`mail` must be a dataset") || len(diags) != 4 {
		t.Error(got)
	}
}
