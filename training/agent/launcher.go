package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/training/protocol"
)

// launch is how the ranks of a node are started.
type launch struct {
	argv []string
	// vars are the launcher's part of the environment. The step's own variables take precedence over those in defaults.
	vars, defaults map[string]string
	// ranks is how many there are on the node.
	ranks int
	// dir is the folder that the ranks' own watchers share with the agent; empty where the agent starts the only rank itself.
	dir string
}

// watched reports whether each rank has a watcher of its own, since another program starts it.
func (l launch) watched() bool { return l.dir != "" }

// launchOf returns how to start the node's command. self is the agent's own program, which watches each rank that a launcher starts. It
// records how the rank ended, which launchers replace with an exit code of their own, and it gives ranks that are told to stop their full
// grace period, which launchers do not.
func launchOf(p *prepared, in protocol.RunRanksInput, self string) (launch, error) {
	rank, nodes, port := strconv.Itoa(p.index), strconv.Itoa(in.Nodes), strconv.Itoa(in.MasterPort)
	command := p.folder.Argv
	if !strings.Contains(command[0], "/") {
		path, err := script.LookPath(command[0], p.folder.Work, p.folder.Env)
		if err != nil {
			return launch{}, err
		}
		command = append([]string{path}, command[1:]...)
	}
	l := launch{argv: command, ranks: 1}
	switch p.spec.Launcher {
	case spec.LauncherTorchrun:
		l.ranks, l.dir = max(1, p.spec.Resources.GPU), filepath.Join(p.dirs.root, "ranks")
		l.argv = append([]string{
			pythonOf(p.folder.Argv), "-m", "torch.distributed.run", "--nnodes=" + nodes, "--node_rank=" + rank,
			"--nproc_per_node=" + strconv.Itoa(l.ranks), "--master_addr=" + in.MasterAddress, "--master_port=" + port,
			"--max_restarts=0", "--monitor_interval=0.5",
			// The default of these, 0, fails with torch 1.13 on Python 3.11. They only affect the output of the watchers: the ranks print elsewhere.
			"--redirects=1", "--tee=1", "--log_dir=" + filepath.Join(l.dir, "torchrun"),
			"--no_python", self, RankCommand, l.dir,
		}, command...)
	case spec.LauncherMPI:
		l.ranks, l.dir = max(1, p.spec.Resources.GPU, int(p.spec.Resources.CPU)), filepath.Join(p.dirs.root, "ranks")
		if p.spec.Resources.GPU > 0 {
			l.ranks = p.spec.Resources.GPU
		}
		l.argv = append([]string{"mpirun", "-n", strconv.Itoa(l.ranks), self, RankCommand, l.dir}, command...)
		// By default, Open MPI refuses to run as root, as containers do, and to start more ranks than it counts cores. Ranks are not bound to
		// cores; the operating system schedules them.
		l.vars = map[string]string{
			"MASTER_ADDR": in.MasterAddress, "MASTER_PORT": port,
			"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
			"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
			"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none",
		}
	case spec.LauncherTensorFlow:
		config, err := tensorflowConfig(p.index, in.Peers)
		if err != nil {
			return launch{}, err
		}
		l.vars = map[string]string{"TF_CONFIG": config}
	default:
		l.vars = map[string]string{
			"RANK": rank, "GROUP_RANK": rank, "NODE_RANK": rank, "WORLD_SIZE": nodes,
			"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": in.MasterAddress, "MASTER_PORT": port,
		}
		// If the command starts torchrun, that reads --nnodes, --node_rank and so on from these variables.
		l.defaults = map[string]string{
			"PET_NNODES": nodes, "PET_NODE_RANK": rank, "PET_NPROC_PER_NODE": strconv.Itoa(max(1, p.spec.Resources.GPU)),
			"PET_MASTER_ADDR": in.MasterAddress, "PET_MASTER_PORT": port,
		}
	}
	return l, nil
}

// pythonOf returns the interpreter that runs torchrun: that of the command, because it is the one that has torch.
func pythonOf(argv []string) string {
	if strings.HasPrefix(filepath.Base(argv[0]), "python") {
		return argv[0]
	}
	return "python3"
}

// tensorflowConfig returns TF_CONFIG: the workers of tf.distribute's MultiWorkerMirroredStrategy, and which of them this one is.
func tensorflowConfig(index int, peers []string) (string, error) {
	if index >= len(peers) {
		return "", errors.New("the addresses of the nodes are not known: use sluice and sluice-agent of the same release")
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	config, err := json.Marshal(struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{"worker": peers}, task{"worker", index}})
	if err != nil {
		return "", fmt.Errorf("TF_CONFIG: %w", err)
	}
	return string(config), nil
}
