package host

import (
	"context"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/helper"
)

// gpuTimeout bounds the wait for a driver, which hangs when a GPU does, and leaves time for the other checks.
const gpuTimeout = 30 * time.Second

// checkGPUs lists the GPUs that a local pool can use. A machine without any lacks nothing.
func checkGPUs(ctx context.Context) []view.Finding {
	ctx, cancel := context.WithTimeout(ctx, gpuTimeout)
	defer cancel()
	inv, err := helper.Inspect(ctx, helper.Path())
	if err != nil {
		return []view.Finding{{Name: "GPUs", State: view.Note, Detail: err.Error(), Help: "`train` steps with `resources: {gpu: n}` cannot start on local pools"}}
	}
	if len(inv.GPUs) == 0 && len(inv.Lost) == 0 {
		return []view.Finding{{Name: "GPUs", Detail: "none: " + inv.Absent}}
	}
	all := view.Finding{Name: "GPUs", Detail: human.Plural(int64(len(inv.GPUs)), "NVIDIA GPU") + ", driver " + inv.Driver}
	if inv.Source == gpu.SourceSMI {
		all.State = view.Note
		all.Help = "sluice-gpu is missing, so links between GPUs, MIG instances and XID errors are not detected: it is built with sluice if there is a " +
			"C compiler; put it beside sluice, or set its path with $" + gpu.HelperVariable
	}
	findings := []view.Finding{all}
	for _, g := range inv.GPUs {
		findings = append(findings, findingOf(g))
	}
	for _, l := range inv.Lost {
		findings = append(findings, view.Finding{
			Name: fmt.Sprintf("GPU %d", l.Index), State: view.Note, Detail: "does not answer: " + l.Reason,
			Help: "see `nvidia-smi` and the kernel's log; usually the machine must be restarted",
		})
	}
	return findings
}

// findingOf says what a GPU is, and what it needs.
func findingOf(g gpu.GPU) view.Finding {
	f := view.Finding{Name: fmt.Sprintf("GPU %d", g.Index), Detail: fmt.Sprintf("%s, %s, %s", g.Model, human.Memory(g.Memory), g.UUID)}
	if g.NUMA >= 0 {
		f.Detail += fmt.Sprintf(", NUMA node %d", g.NUMA)
	}
	if g.MIG {
		f.Detail += ", " + human.Plural(int64(len(g.Instances)), "MIG instance")
	}
	switch g.Recovery {
	case gpu.RecoveryReset, gpu.RecoveryDrain:
		f.State, f.Help = view.Note, "it needs a reset according to the driver, and is not used until then: nvidia-smi --gpu-reset"
	case gpu.RecoveryReboot:
		f.State, f.Help = view.Note, "the machine needs a restart according to the driver, and the GPU is not used until then"
	}
	return f
}
