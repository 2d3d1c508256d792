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

// rankEnv is the environment of the node's ranks: the program's own as the step laid it out, without what is the agent's, plus the two
// contracts with the script: the launcher's and Sluice's.
func rankEnv(c protocol.AgentConfig, p *prepared, l launch) []string {
	vars := map[string]string{"SLUICE_OUTPUT_DIR": p.folder.Output, "SLUICE_METRICS": p.dirs.metrics}
	if len(c.GPUs) > 0 {
		vars["CUDA_VISIBLE_DEVICES"] = strings.Join(c.GPUs, ",")
	}
	base := protocol.Scrub(p.folder.Env)
	if p.step.BySluice() { // the programs that it starts are not to take themselves for ranks
		if _, compiles := p.spec.Outputs[spec.CompileBuilt]; compiles { // by these, sluice finds ONNX Runtime's library
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

// threads is how many the ranks of a node should compute with: as many as the step asked cores for, else what the node has.
func threads(c protocol.AgentConfig, r spec.Resources) int {
	if r.CPU > 0 {
		return max(1, int(r.CPU))
	}
	return c.CPUs
}
