package gpu

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The documentation lists all XIDs that ask for a reset.
func TestDocumentedXIDs(t *testing.T) {
	raw, err := os.ReadFile("../../docs/gpus.md")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`has to be reset \(([0-9, ]+);`).FindSubmatch(raw)
	if list == nil {
		t.Fatal("docs/gpus.md has no list of XIDs that ask for a reset")
	}
	var want []string
	for _, number := range slices.Sorted(maps.Keys(catalog)) {
		if (Event{XID: number}).Unusable() {
			want = append(want, strconv.Itoa(number))
		}
	}
	if diff := cmp.Diff(want, strings.Split(string(list[1]), ", ")); diff != "" {
		t.Errorf("XIDs that ask for a reset (-catalog +docs):\n%s", diff)
	}
}

func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		event    Event
		action   Action
		unusable bool
	}{
		{Event{XID: 13}, ActionRestartApp, false},
		{Event{XID: 31}, ActionRestartApp, false},
		{Event{XID: 43}, ActionIgnore, false},
		{Event{XID: 63}, ActionIgnore, false},
		{Event{XID: 94}, ActionRestartApp, false},
		{Event{XID: 101}, ActionRestartApp, false},
		{Event{XID: 48}, ActionReset, true},
		{Event{XID: 64}, ActionReset, true},
		{Event{XID: 95}, ActionReset, true},
		{Event{XID: 119}, ActionReset, true},
		{Event{XID: 79}, ActionReboot, true},
		{Event{XID: 74}, ActionInvestigate, false},
		{Event{XID: 74, Recovery: RecoveryReset}, ActionReset, true},
		{Event{XID: 154, Recovery: RecoveryReboot}, ActionReboot, true},
		{Event{XID: 154, Recovery: RecoveryNone}, ActionInvestigate, false},
		{Event{XID: 64, Recovery: RecoveryNone}, ActionReset, true},
		{Event{XID: 999}, ActionInvestigate, false},
	} {
		if got := tt.event.Action(); got != tt.action || tt.event.Unusable() != tt.unusable {
			t.Errorf("%+v: action %s, unusable %t", tt.event, got, tt.event.Unusable())
		}
	}
	got := Event{XID: 79, UUID: "GPU-x", Index: 3}.String()
	if want := "GPU 3 (GPU-x): XID 79, GPU has fallen off the bus: the machine needs a restart"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if strings.Contains(Event{XID: 31}.String(), "needs") {
		t.Error("a page fault asks for a reset")
	}
}
