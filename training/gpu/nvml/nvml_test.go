//go:build cgo

package nvml

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a machine whose kernel says which NUMA node each GPU is at.
func open(t *testing.T, m *gputest.Machine) *Driver {
	t.Helper()
	d, err := Open(m)
	if err != nil {
		t.Fatal(err)
	}
	d.sys = t.TempDir()
	for i := range m.Devices {
		pci, _ := m.Devices[i].GetPciInfo()
		dir := filepath.Join(d.sys, "bus/pci/devices", busID(pci))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte{byte('0' + i/4), '\n'}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestInventory(t *testing.T) {
	m := gputest.New()
	m.Divide(7, 3)
	m.Set(2, func(s *gputest.State) { s.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET })
	inv, err := open(t, m).Inventory()
	if err != nil {
		t.Fatal(err)
	}
	if inv.Driver != "550.54.15" || inv.CUDA != "12.4" || len(inv.GPUs) != 8 || len(inv.Links) != 28 {
		t.Errorf("driver %s, CUDA %s, %d GPUs, %d links", inv.Driver, inv.CUDA, len(inv.GPUs), len(inv.Links))
	}
	const model = "Mock NVIDIA A100-SXM4-40GB"
	want := gpu.GPU{Index: 5, UUID: "GPU-5", Model: model, Memory: 40 << 30, PCI: "0000:15:00.0", NUMA: 1, Capability: "8.0", ECC: true, Recovery: "none"}
	if diff := cmp.Diff(want, inv.GPUs[5]); diff != "" {
		t.Errorf("GPU 5 (-want +got):\n%s", diff)
	}
	if inv.GPUs[2].Recovery != gpu.RecoveryReset {
		t.Errorf("GPU 2 needs %q, want a reset", inv.GPUs[2].Recovery)
	}
	instances := []gpu.Instance{
		{UUID: "MIG-7-0", Model: model + " MIG 1g.5gb", Memory: 4864 << 20, GPUInstance: 1},
		{UUID: "MIG-7-1", Model: model + " MIG 3g.20gb", Memory: 19968 << 20, GPUInstance: 2},
		{UUID: "MIG-7-2", Model: model + " MIG 1g.5gb", Memory: 4864 << 20, GPUInstance: 3},
	}
	if diff := cmp.Diff(instances, inv.GPUs[7].Instances); diff != "" || !inv.GPUs[7].MIG {
		t.Errorf("instances of GPU 7 (-want +got):\n%s", diff)
	}
	if units := inv.Units(); len(units) != 10 || units[9].UUID != "MIG-7-2" {
		t.Errorf("units: %v", units)
	}
}

// A GPU that has fallen off the bus leaves a gap, and the others are there as before.
func TestInventoryWithGap(t *testing.T) {
	m := gputest.New()
	d := open(t, m)
	byIndex := m.DeviceGetHandleByIndexFunc
	m.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return byIndex(i)
	}
	inv, err := d.Inventory()
	if err != nil || len(inv.GPUs) != 7 || len(inv.Links) != 21 || inv.Affinity(1, 3) != 1220 {
		t.Errorf("%d GPUs, %d links, affinity of 1 and 3: %d, %v", len(inv.GPUs), len(inv.Links), inv.Affinity(1, 3), err)
	}
	if len(inv.Lost) != 1 || inv.Lost[0].Index != 2 {
		t.Errorf("lost: %+v, want GPU 2", inv.Lost)
	}
	if units, err := d.units([]string{"GPU-3"}); err != nil || units[0].device != m.Devices[3] {
		t.Errorf("GPU 3 is not opened by its index: %v", err)
	}
}

func TestTopology(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bridge [][2]int
		want   map[[2]int]gpu.Link
	}{
		{"switches join all", nil, map[[2]int]gpu.Link{
			{0, 1}: {A: 0, B: 1, NVLinks: 12, Path: gpu.PathSwitches},
			{0, 3}: {A: 0, B: 3, NVLinks: 12, Path: gpu.PathNode},
			{0, 7}: {A: 0, B: 7, NVLinks: 12, Path: gpu.PathSystem},
		}},
		{"bridges join pairs", [][2]int{{0, 5}, {1, 4}}, map[[2]int]gpu.Link{
			{0, 1}: {A: 0, B: 1, Path: gpu.PathSwitches},
			{0, 5}: {A: 0, B: 5, NVLinks: 4, Path: gpu.PathSystem},
			{1, 4}: {A: 1, B: 4, NVLinks: 4, Path: gpu.PathSystem},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := gputest.New()
			if tt.bridge != nil {
				m.Bridge(tt.bridge...)
			}
			inv, err := open(t, m).Inventory()
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range inv.Links {
				if want, ok := tt.want[[2]int{l.A, l.B}]; ok && l != want {
					t.Errorf("link %+v, want %+v", l, want)
				}
			}
			if placed, ok := inv.Place(inv.Units(), 1, 2); tt.bridge != nil && (!ok || placed[0][0].GPU != 0 || placed[0][1].GPU != 5) {
				t.Errorf("a node of two GPUs gets %v, want those with a bridge", placed)
			}
		})
	}
}

// A machine without a driver says so, and what it has is nothing.
func TestNoDriver(t *testing.T) {
	m := gputest.New()
	m.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	var out bytes.Buffer
	if err := Main(t.Context(), m, []string{"inventory"}, &out); err != nil {
		t.Fatal(err)
	}
	var inv gpu.Inventory
	if err := json.Unmarshal(out.Bytes(), &inv); err != nil || len(inv.GPUs) > 0 || !strings.Contains(inv.Absent, "libnvidia-ml.so.1 is not installed") {
		t.Errorf("%s, %v", out.String(), err)
	}
	if err := Main(t.Context(), m, []string{"watch"}, &out); !errors.Is(err, ErrAbsent) {
		t.Errorf("watch without a driver: %v", err)
	}
	if err := Main(t.Context(), m, nil, &out); err != nil || !strings.Contains(out.String(), "sluice-gpu inventory") {
		t.Errorf("without a command: %v, %s", err, out.String())
	}
	if err := Main(t.Context(), m, []string{"look"}, &out); err == nil || !strings.Contains(err.Error(), `unknown command "look"`) {
		t.Errorf("unknown command: %v", err)
	}
}

// watching starts Watch, and returns its reports. It ends with the test.
func watching(t *testing.T, m *gputest.Machine, uuids ...string) <-chan gpu.Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reports, over := make(chan gpu.Report), make(chan error, 1)
	d := open(t, m)
	go func() {
		over <- d.Watch(ctx, uuids, 10*time.Millisecond, func(r gpu.Report) error {
			select {
			case reports <- r:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	return reports
}

// await is the next report that is meant.
func await(t *testing.T, reports <-chan gpu.Report, meant func(gpu.Report) bool) gpu.Report {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case r := <-reports:
			if meant(r) {
				return r
			}
		case <-limit:
			t.Fatal("no such report came")
		}
	}
}

func isEvent(r gpu.Report) bool   { return r.Event != nil }
func isReading(r gpu.Report) bool { return r.Event == nil }

func TestReadings(t *testing.T) {
	m := gputest.New()
	m.Divide(6, 2)
	m.Set(3, func(s *gputest.State) {
		s.Utilization, s.Corrected, s.Uncorrected = 42, 7, 1
		s.Reasons = nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksEventReasonGpuIdle
	})
	r := await(t, watching(t, m, "GPU-3", "MIG-6-1"), isReading)
	share := 0.42
	want := []gpu.Reading{
		{
			UUID: "GPU-3", Index: 3, Model: "Mock NVIDIA A100-SXM4-40GB", Memory: 40 << 30, MemoryUsed: 30 << 30, Utilization: &share, Temperature: 61,
			Power: 350, PowerLimit: 400, Throttled: []string{"power", "thermal"}, Corrected: 7, Uncorrected: 1, PCIe: "gen4 x16",
		},
		{
			UUID: "MIG-6-1", Index: 6, Model: "Mock NVIDIA A100-SXM4-40GB MIG 3g.20gb", Memory: 19968 << 20, MemoryUsed: 1 << 30, Temperature: 61,
			Power: 350, PowerLimit: 400, PCIe: "gen4 x16",
		},
	}
	if diff := cmp.Diff(want, r.Readings); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
}

func TestWatchEvents(t *testing.T) {
	m := gputest.New()
	m.Divide(6, 2)
	reports := watching(t, m, "GPU-3", "MIG-6-1")
	await(t, reports, isReading)
	m.Set(3, func(s *gputest.State) { s.Recovery = nvml.GPU_RECOVERY_ACTION_NODE_REBOOT })
	m.Raise(5, 79)         // is not watched
	m.RaiseIn(6, 94, 1, 0) // is contained in an instance that is not watched
	m.Raise(3, 154)
	m.RaiseIn(6, 94, 2, 0)
	m.Raise(6, 95)
	var got []gpu.Event
	for range 3 {
		got = append(got, *await(t, reports, isEvent).Event)
	}
	want := []gpu.Event{
		{XID: 154, UUID: "GPU-3", Index: 3, Recovery: "reboot"}, {XID: 94, UUID: "MIG-6-1", Index: 6, Recovery: "none"}, {XID: 95, UUID: "MIG-6-1", Index: 6, Recovery: "none"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A GPU that has fallen off the bus is said to have, once, also where the driver has no event of it; the others are read on.
func TestWatchLost(t *testing.T) {
	m := gputest.New()
	reports := watching(t, m, "GPU-0", "GPU-1")
	m.Set(1, func(s *gputest.State) { s.Lost = true })
	if e := await(t, reports, isEvent).Event; e.XID != 79 || e.UUID != "GPU-1" || !e.Unusable() {
		t.Errorf("event %+v", e)
	}
	m.Raise(1, 79) // late
	for range 20 {
		if r := <-reports; r.Event != nil || slices.ContainsFunc(r.Readings, func(r gpu.Reading) bool { return r.UUID == "GPU-1" }) {
			t.Fatalf("the lost GPU is reported again: %+v", r)
		}
	}
}

// What a GPU needs is reported, once, also when the error that led to it came before the watch; and one that was lost before is reported too.
func TestWatchBroken(t *testing.T) {
	m := gputest.New()
	m.Set(1, func(s *gputest.State) { s.Recovery = nvml.GPU_RECOVERY_ACTION_GPU_RESET })
	byIndex := m.DeviceGetHandleByIndexFunc
	m.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return byIndex(i)
	}
	reports := watching(t, m, "GPU-0", "GPU-1", "GPU-2")
	got := []gpu.Event{*await(t, reports, isEvent).Event, *await(t, reports, isEvent).Event}
	want := []gpu.Event{{XID: 154, UUID: "GPU-1", Index: 1, Recovery: "reset"}, {XID: 79, UUID: "GPU-2", Index: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for range 20 {
		if r := <-reports; r.Event != nil || len(r.Readings) != 2 {
			t.Fatalf("then %+v, want the readings of two GPUs", r)
		}
	}
}

// An event of a GPU that cannot say any more which it is has the GPUs read at once.
func TestWatchLostByEvent(t *testing.T) {
	m := gputest.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	err := open(t, m).Watch(ctx, []string{"GPU-1"}, time.Hour, func(r gpu.Report) error {
		switch {
		case r.Event != nil:
			if r.Event.XID != gpu.XIDLost || r.Event.UUID != "GPU-1" {
				t.Errorf("event %+v", r.Event)
			}
			cancel()
		case reads == 0:
			reads++
			m.Set(1, func(s *gputest.State) { s.Lost = true })
			m.Device(1).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
			m.Raise(1, 79)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWatchUnknown(t *testing.T) {
	err := open(t, gputest.New()).Watch(t.Context(), []string{"GPU-x"}, time.Second, nil)
	if err == nil || !strings.Contains(err.Error(), "no GPU GPU-x") {
		t.Errorf("%v", err)
	}
}
