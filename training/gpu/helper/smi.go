package helper

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training/gpu"
)

const smi = "nvidia-smi"

// smiAbsent are nvidia-smi's exit codes for no GPU, no driver and no library of it (RETURN VALUE in its manual).
var smiAbsent = []int{6, 9, 12}

// errNothing: there is nothing to ask.
var errNothing = errors.New("neither " + Name + " nor " + smi + " is installed")

// query asks nvidia-smi for these properties of every GPU: a row each.
func query(ctx context.Context, limit time.Duration, properties ...string) ([][]string, error) {
	out, err := output(ctx, limit, smi, "--query-gpu="+strings.Join(properties, ","), "--format=csv,noheader,nounits")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errNothing
	} else if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = len(properties)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s printed %q: %w", smi, out, err)
	}
	return rows, nil
}

// inspectSMI lists whole GPUs, without links. Those in MIG mode are left out: nvidia-smi does not tell their instances this way.
func inspectSMI(ctx context.Context, limit time.Duration) (gpu.Inventory, error) {
	inv := gpu.Inventory{Source: gpu.SourceSMI}
	rows, err := query(ctx, limit, "index", "uuid", "name", "memory.total", "driver_version", "pci.bus_id", "mig.mode.current")
	if errors.Is(err, errNothing) {
		inv.Absent = err.Error()
		return inv, nil
	} else if failed := new(exitError); errors.As(err, failed) && slices.Contains(smiAbsent, failed.exit.Code) {
		inv.Absent = err.Error()
		return inv, nil
	} else if err != nil {
		return inv, err
	}
	if len(rows) == 0 {
		inv.Absent = smi + " lists none"
	}
	for _, row := range rows {
		inv.Driver = row[4]
		inv.GPUs = append(inv.GPUs, gpu.GPU{
			Index: int(number(row[0])), UUID: row[1], Model: row[2], Memory: int64(number(row[3])) << 20, PCI: strings.ToLower(row[5]), NUMA: -1,
			MIG: row[6] == "Enabled",
		})
	}
	return inv, nil
}

// number reads one; what nvidia-smi does not know, "[N/A]", is 0.
func number(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

// watchSMI asks again and again. Of errors nvidia-smi says nothing.
func watchSMI(ctx context.Context, uuids []string, every time.Duration, report func(gpu.Report)) error {
	for range poll.Every(ctx, every) {
		readings, err := readSMI(ctx, uuids)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		report(gpu.Report{At: time.Now(), Readings: readings})
	}
	return nil
}

func readSMI(ctx context.Context, uuids []string) ([]gpu.Reading, error) {
	rows, err := query(ctx, inspectLimit, "index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu", "power.draw", "power.limit")
	if err != nil {
		return nil, err
	}
	var readings []gpu.Reading
	for _, row := range rows {
		if len(uuids) > 0 && !slices.Contains(uuids, row[1]) {
			continue
		}
		r := gpu.Reading{
			UUID: row[1], Index: int(number(row[0])), Model: row[2], Memory: int64(number(row[3])) << 20, MemoryUsed: int64(number(row[4])) << 20,
			Temperature: int(number(row[6])), Power: number(row[7]), PowerLimit: number(row[8]),
		}
		if percent, err := strconv.ParseFloat(row[5], 64); err == nil {
			percent /= 100
			r.Utilization = &percent
		}
		readings = append(readings, r)
	}
	return readings, nil
}
