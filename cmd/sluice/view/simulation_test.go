package view_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/policy"
)

func TestSimulation(t *testing.T) {
	job := policy.Job{Work: 4 * time.Hour, Within: 9 * time.Hour, Changeover: 30 * time.Minute, Prices: spec.Prices{Spot: 1, OnDemand: 3}}
	windows := []policy.Window{{Available: "11001111"}}
	for range 20 {
		windows = append(windows, policy.Window{Available: "0"})
	}
	var out bytes.Buffer
	if err := view.Simulation(&out, job, []policy.Trace{{Zone: "a<b", GapSeconds: 3600, Windows: windows}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a&lt;b window 1: $11.00, the least is $5.00, on-demand $13.50", "The first 12 of 21 windows.",
		"spot available, from 4h 00m to 8h 00m", "on spot, from 0.0 s to 2h 00m", "nodes start, from 2h 00m to 2h 30m", "on on-demand, from 2h 00m to 5h 00m",
		"done after 5h 00m",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "window 13") {
		t.Error("a window too many is drawn")
	}
	d := xml.NewDecoder(&out)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
