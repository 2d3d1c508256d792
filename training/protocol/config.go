package protocol

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/gpu"
)

// AgentConfig is the configuration that a pool passes to the agent of a node. It is passed in environment variables, never in arguments,
// because it contains a secret.
type AgentConfig struct {
	// Address, Namespace and Token of the Temporal server. Without a token the agent connects as Temporal's own environment variables
	// say (TLS, API key), which it then inherits.
	Address, Namespace, Token string
	// CodecKeys is the path of the payload codec's key file; empty without encryption. The keys themselves are never passed on.
	CodecKeys string
	// Store is the URL of the store.
	Store string
	// Queue is the node's task queue.
	Queue string
	// Dir is the node's own folder: the pool writes the file "notice" there, the agent the file "training".
	Dir string
	// LogDir takes the ranks' metrics, in <run>/<step>/.
	LogDir string
	// Host is the address at which the other nodes reach this one.
	Host string
	// CPUs is how many cores the node may use.
	CPUs int
	// GPUs are those of the machine that are the node's, as CUDA_VISIBLE_DEVICES takes them. Empty: all that the node sees.
	GPUs []string
	// GPUHelper is where sluice-gpu is; empty: where package gpu/helper finds it.
	GPUHelper string
	// PythonEnv is the virtual environment whose programs come first in the ranks' PATH. May be empty.
	PythonEnv string
	// Metadata is the address of EC2's instance metadata service, on its instances: there the node's notice is told. Else empty.
	Metadata string
	// Idle is how long the node may have nothing to do before the agent ends itself; 0: for ever. For machines that cost.
	Idle time.Duration
	// Grace is how long the node lives on after the agent's first SIGTERM, which is then its notice; 0: SIGTERM ends the agent.
	Grace time.Duration
	// MetricsListen is the address, host:port, at which the agent answers Prometheus; empty for none.
	MetricsListen string
	// Cache is the folder of the machine where agents keep what they fetch, each user's in a folder of its own, and CacheLimit how many bytes
	// of it at most. Empty: nothing is kept.
	Cache      string
	CacheLimit spec.Size
	// Requirements is the requirements file, of the workspace, for steps that name none. May be empty.
	Requirements string
	// Sluice is the program that compiles on the node, where that is the worker's own; empty: the one in PATH, of the same release.
	Sluice string
	// ONNXRuntime is the path of ONNX Runtime's shared library, for that program; empty: where package serving/onnx finds it.
	ONNXRuntime string
	// Shared is true where the agent's environment is that of the worker that started it, and not that of a machine or an image: the ranks
	// then get as little of it as the programs beside the worker.
	Shared bool
}

// The environment variables of what a machine knows of itself better than who starts it.
const (
	QueueVariable = "SLUICE_NODE_QUEUE"
	HostVariable  = "SLUICE_NODE_HOST"
	CPUsVariable  = "SLUICE_NODE_CPUS"
	// PythonVariable names the virtual environment of all runs.
	PythonVariable = "SLUICE_PYTHON_ENV"
	// LibraryVariable names ONNX Runtime's shared library.
	LibraryVariable = "SLUICE_ONNXRUNTIME"
)

// The environment variables of the rest of Config.
const (
	envAddress   = "SLUICE_TEMPORAL_ADDRESS"
	envNamespace = "SLUICE_TEMPORAL_NAMESPACE"
	envToken     = "SLUICE_TEMPORAL_TOKEN"
	envCodecKeys = "SLUICE_CODEC_KEYS"
	envStore     = "SLUICE_STORE"
	envDir       = "SLUICE_NODE_DIR"
	envLogDir    = "SLUICE_LOG_DIR"
	envGPUs      = "SLUICE_NODE_GPUS"
	envGPUHelper = gpu.HelperVariable
	envMetadata  = "SLUICE_IMDS"
	envIdle      = "SLUICE_NODE_IDLE"
	envGrace     = "SLUICE_NODE_GRACE"
	envMetrics   = "SLUICE_NODE_METRICS_LISTEN"
	envRequires  = "SLUICE_PYTHON_REQUIREMENTS"
	envShared    = "SLUICE_NODE_SHARED"
	envCache     = "SLUICE_NODE_CACHE"
	envCacheSize = "SLUICE_NODE_CACHE_SIZE"
	envSluice    = "SLUICE_NODE_SLUICE"
)

// Environ is the environment for an agent process: base without what belongs to Sluice, plus c.
func (c AgentConfig) Environ(base []string) []string {
	environ := slices.DeleteFunc(Scrub(base), func(kv string) bool { return strings.HasPrefix(kv, "PET_") }) // of a torchrun around Sluice
	if c.Token == "" {
		environ = append(environ, temporalVariables(base)...)
	}
	if c.ONNXRuntime != "" { // else that of the node's image, which may name one
		environ = append(environ, LibraryVariable+"="+c.ONNXRuntime)
	}
	return append(environ,
		envAddress+"="+c.Address, envNamespace+"="+c.Namespace, envToken+"="+c.Token, envStore+"="+c.Store,
		envCodecKeys+"="+c.CodecKeys,
		QueueVariable+"="+c.Queue, envDir+"="+c.Dir, envLogDir+"="+c.LogDir, HostVariable+"="+c.Host,
		CPUsVariable+"="+strconv.Itoa(c.CPUs), envGPUs+"="+strings.Join(c.GPUs, ","), PythonVariable+"="+c.PythonEnv,
		envMetadata+"="+c.Metadata, envIdle+"="+c.Idle.String(), envGrace+"="+c.Grace.String(), envRequires+"="+c.Requirements,
		envMetrics+"="+c.MetricsListen, envShared+"="+strconv.FormatBool(c.Shared), envGPUHelper+"="+c.GPUHelper,
		envCache+"="+c.Cache, envCacheSize+"="+strconv.FormatInt(int64(c.CacheLimit), 10),
		envSluice+"="+c.Sluice,
	)
}

// AgentConfigFromEnv reads what Environ wrote.
func AgentConfigFromEnv() (AgentConfig, error) {
	c := AgentConfig{
		Address: os.Getenv(envAddress), Namespace: os.Getenv(envNamespace), Token: os.Getenv(envToken),
		CodecKeys: os.Getenv(envCodecKeys), Store: os.Getenv(envStore), Queue: os.Getenv(QueueVariable), Dir: os.Getenv(envDir), LogDir: os.Getenv(envLogDir),
		Host: os.Getenv(HostVariable), PythonEnv: os.Getenv(PythonVariable), Metadata: os.Getenv(envMetadata), Requirements: os.Getenv(envRequires),
		Shared: os.Getenv(envShared) == "true", GPUHelper: os.Getenv(envGPUHelper), MetricsListen: os.Getenv(envMetrics),
		Cache:  os.Getenv(envCache),
		Sluice: os.Getenv(envSluice), ONNXRuntime: os.Getenv(LibraryVariable),
	}
	if gpus := os.Getenv(envGPUs); gpus != "" {
		c.GPUs = strings.Split(gpus, ",")
	}
	var missing []string
	for _, v := range []struct{ name, value string }{
		{envAddress, c.Address},
		{envNamespace, c.Namespace},
		{envStore, c.Store},
		{QueueVariable, c.Queue},
		{envDir, c.Dir},
		{envLogDir, c.LogDir},
		{HostVariable, c.Host},
	} {
		if v.value == "" {
			missing = append(missing, v.name)
		}
	}
	if len(missing) > 0 {
		return c, fmt.Errorf("%s is not set: the agent must be started by a pool, not by hand", strings.Join(missing, ", "))
	}
	var err error
	if c.CPUs, err = strconv.Atoi(os.Getenv(CPUsVariable)); err != nil || c.CPUs < 1 {
		return c, fmt.Errorf("%s=%q is not a number of cores", CPUsVariable, os.Getenv(CPUsVariable))
	}
	if text := os.Getenv(envCacheSize); text != "" {
		if c.CacheLimit, err = spec.ParseSize(text); err != nil {
			return c, fmt.Errorf("%s: %w", envCacheSize, err)
		}
	}
	for name, to := range map[string]*time.Duration{envIdle: &c.Idle, envGrace: &c.Grace} {
		if text := os.Getenv(name); text != "" {
			if *to, err = time.ParseDuration(text); err != nil {
				return c, fmt.Errorf("%s=%q is not a duration", name, text)
			}
		}
	}
	return c, nil
}

// Scrub removes what the processes of a node must not inherit: credentials for Temporal, and Sluice's and torchrun's own variables. The
// variables from which torchrun takes its options (PET_) may belong to the step or its image, and stay.
func Scrub(base []string) []string {
	return slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		return slices.ContainsFunc([]string{"SLUICE_", "TEMPORAL_", "TORCHELASTIC_"}, func(prefix string) bool {
			return strings.HasPrefix(kv, prefix)
		})
	})
}

// temporalVariables are those that Temporal's clients are configured by.
func temporalVariables(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return !strings.HasPrefix(kv, "TEMPORAL_") })
}
