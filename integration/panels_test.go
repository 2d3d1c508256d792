package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/helper"
)

// equip gives the pool a price, each node a GPU and the machine those of gputest, so that there is something to show in every panel. A stage
// of the rollout lasts for some looks of Prometheus: what is told of a stage is gone with it.
func (c *composed) equip() {
	c.t.Helper()
	c.edit("environment.yaml", "{local: {nodes: 2}}", "{local: {nodes: 2}, usd_per_hour: {on_demand: 2.5}}")
	c.edit("pipeline.yaml", "      nodes: 2\n", "      nodes: 2\n      resources: {gpu: 1}\n")
	c.edit("pipeline.yaml", "{weight: 50%, min_samples: 100,", "{weight: 50%, min_samples: 1000,")
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	machine := filepath.Join(c.dir, "gpus")
	if err := os.Mkdir(machine, 0o700); err != nil {
		c.t.Fatal(err)
	}
	program := filepath.Join(c.dir, helper.Name)
	text := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", gputest.Variable, machine, self)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.env = append(c.env, gpu.HelperVariable+"="+program)
}

// watched waits until Prometheus reaches both workers, and knows that the run has succeeded.
func (c *composed) watched() {
	c.t.Helper()
	c.awaitData(`count(up{job="sluice"} == 1) == 2`, 0)
	c.awaitData(`max_over_time(sluice_runs_total{status="succeeded"}[1h]) == 1`, 0)
}

// measured waits until Prometheus has counted what the example does, and has had data for every panel of the dashboards: some show what goes
// on, and nothing any more when that has ended. What a worker counted and nobody had read is gone when it is killed.
func (c *composed) measured() {
	c.t.Helper()
	for _, query := range []string{
		`sum(max_over_time(sluice_rows_total{outcome="kept"}[1h])) > 4000`,
		`sum(max_over_time(sluice_train_cost_usd_total[1h])) > 0`,
		`max_over_time(sluice_gpu_utilization_ratio{gpu="1"}[1h]) == 0.9`,
		`max_over_time(sluice_rollout_e_value[1h]) > 0`,
	} {
		c.awaitData(query, 0)
	}
	for _, query := range panels(c.t) {
		c.awaitData(query, time.Hour)
	}
}

// awaitData waits until Prometheus has an answer to a query: now or, as a panel asks it, over the time up to now.
func (c *composed) awaitData(query string, over time.Duration) {
	c.t.Helper()
	at := "http://" + c.service("prometheus").Address + ":9090/api/v1/"
	c.await("Prometheus to have data of "+query, func() bool {
		path, now := "query?", time.Now()
		values := url.Values{"query": {query}}
		if over > 0 {
			path = "query_range?"
			values["start"], values["end"] = []string{now.Add(-over).Format(time.RFC3339)}, []string{now.Format(time.RFC3339)}
			values["step"] = []string{"5"}
		}
		res, err := http.Get(at + path + values.Encode())
		if err != nil {
			return false
		}
		defer res.Body.Close()
		var answer struct{ Data struct{ Result []any } }
		return json.NewDecoder(res.Body).Decode(&answer) == nil && len(answer.Data.Result) > 0
	})
}

// panels are the queries of all panels of the dashboards.
func panels(t *testing.T) (queries []string) {
	t.Helper()
	paths, err := filepath.Glob("../deploy/grafana/dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(raw, &dashboard); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			}
		}
	}
	return queries
}
