package agent

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/training/protocol"
)

// rankEnv returns the environment of the node's ranks: that of the step, without the variables of the agent itself, and with those that the
// script gets from the launcher and from Sluice.
func rankEnv(c protocol.AgentConfig, p *prepared, l launch) []string {
	vars := map[string]string{"SLUICE_OUTPUT_DIR": p.folder.Output, "SLUICE_METRICS": p.dirs.metrics}
	if len(c.GPUs) > 0 {
		vars["CUDA_VISIBLE_DEVICES"] = strings.Join(c.GPUs, ",")
	}
	base := protocol.Scrub(p.folder.Env)
	if p.step.BySluice() { // programs that it starts must not take themselves for ranks
		if _, compiles := p.spec.Outputs[spec.CompileBuilt]; compiles { // sluice finds ONNX Runtime's library by these
			vars[protocol.LibraryVariable], vars[protocol.PythonVariable] = c.ONNXRuntime, p.python
		}
		return script.Merge(base, vars)
	}
	vars["SLUICE_CHECKPOINT_DIR"] = p.dirs.checkpoints
	maps.Copy(vars, l.vars)
	if every := time.Duration(p.spec.Checkpoint.Every); every > 0 {
		vars["SLUICE_CHECKPOINT_EVERY"] = every.String()
	}
	if p.seal.Resume != nil {
		vars["SLUICE_RESUME_DIR"] = p.resumeFrom
	}
	if ip := net.ParseIP(c.Host); ip != nil && ip.IsLoopback() {
		vars["GLOO_SOCKET_IFNAME"] = "lo"
	}
	defaults := map[string]string{
		"OMP_NUM_THREADS":    strconv.Itoa(max(1, threads(c, p.spec.Resources)/l.ranks)),
		"PYTHONFAULTHANDLER": "1", // see logStacks
	}
	maps.Copy(defaults, l.defaults)
	for name, value := range defaults {
		if !slices.ContainsFunc(base, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			vars[name] = value
		}
	}
	return script.Merge(base, vars)
}

// threads returns how many threads the ranks of a node should use: the number of cores that the step requests, or else the cores of the
// node.
func threads(c protocol.AgentConfig, r spec.Resources) int {
	if r.CPU > 0 {
		return max(1, int(r.CPU))
	}
	return c.CPUs
}
