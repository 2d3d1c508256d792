package trtexec

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// visibleDevices is by which CUDA is told which GPUs a program may use: numbers, UUIDs or the beginnings of UUIDs, of which the first is
// the one that trtexec uses. An instance of a GPU, as MIG makes them, has a UUID that begins with instancePrefix.
const (
	visibleDevices = "CUDA_VISIBLE_DEVICES"
	instancePrefix = "MIG-"
)

// findGPU asks nvidia-smi for the GPU that trtexec is to use. Both count GPUs differently, so from here on it is called by its UUID.
func (t *Tool) findGPU(ctx context.Context) error {
	visible, limited := os.LookupEnv(visibleDevices)
	first, _, _ := strings.Cut(visible, ",")
	if first = strings.TrimSpace(first); limited && (first == "" || first == "-1") {
		return &UnavailableError{visibleDevices + " hides all GPUs: an engine must be built on the GPU that it will run on"}
	}
	if !strings.HasPrefix(first, instancePrefix) {
		return t.useGPU(ctx, first)
	}
	return t.useInstance(ctx, func(i instance) bool { return strings.HasPrefix(i.uuid, first) },
		fmt.Errorf("nvidia-smi does not list %s, which %s selects", first, visibleDevices))
}

// useGPU describes a GPU; the first where id is empty. Of one that is divided CUDA uses the first instance.
func (t *Tool) useGPU(ctx context.Context, id string) error {
	divided, err := t.query(ctx, id)
	if err != nil || !divided {
		return err
	}
	return t.useInstance(ctx, func(i instance) bool { return i.gpu == t.uuid },
		&UnavailableError{"GPU " + t.uuid + " is in MIG mode and has no instance"})
}

// useInstance describes the first instance of a GPU that is wanted; without one the error is none. An engine is made for its size.
func (t *Tool) useInstance(ctx context.Context, wanted func(instance) bool, none error) error {
	all, err := t.instances(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, wanted)
	if at < 0 {
		return none
	}
	_, err = t.query(ctx, all[at].gpu)
	t.uuid = all[at].uuid
	t.Platform.GPU += " MIG " + all[at].profile
	return err
}

// query asks for what an engine is bound to, and whether the GPU is divided into instances.
func (t *Tool) query(ctx context.Context, id string) (divided bool, err error) {
	args := []string{"--query-gpu=uuid,name,compute_cap,driver_version,mig.mode.current", "--format=csv,noheader"}
	if id != "" {
		args = append(args, "--id="+id)
	}
	said, err := t.askSMI(ctx, args...)
	if err != nil {
		return false, err
	}
	reader := csv.NewReader(strings.NewReader(said))
	reader.TrimLeadingSpace = true
	row, err := reader.Read()
	if err != nil || len(row) != 5 {
		return false, fmt.Errorf("nvidia-smi lists no GPU: %s", strings.TrimSpace(said))
	}
	t.uuid, t.Platform.GPU, t.Platform.ComputeCapability, t.Platform.Driver = row[0], row[1], row[2], row[3]
	return row[4] == "Enabled", nil
}

// instance is a part of a GPU.
type instance struct{ uuid, gpu, profile string }

// What nvidia-smi -L prints: a GPU, and below it its instances.
var (
	gpuLine      = regexp.MustCompile(`^GPU \d+: .*\(UUID: (GPU-[^)]+)\)`)
	instanceLine = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)`)
)

func (t *Tool) instances(ctx context.Context) ([]instance, error) {
	said, err := t.askSMI(ctx, "-L")
	if err != nil {
		return nil, err
	}
	var all []instance
	gpu := ""
	for line := range strings.Lines(said) {
		if found := gpuLine.FindStringSubmatch(line); found != nil {
			gpu = found[1]
		}
		if found := instanceLine.FindStringSubmatch(line); found != nil {
			all = append(all, instance{uuid: found[2], gpu: gpu, profile: found[1]})
		}
	}
	return all, nil
}

func (t *Tool) askSMI(ctx context.Context, args ...string) (string, error) {
	said, err := t.ask(ctx, "nvidia-smi", args...)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", &UnavailableError{"nvidia-smi was not found: an engine must be built on the GPU that it will run on"}
	}
	return said, err
}
