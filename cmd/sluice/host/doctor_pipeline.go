package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines/runner"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/triton"
)

// examinePipeline checks what a pipeline needs with its environment. The needs of child pipelines' steps are unknown here, and so is what
// nodes of pools have.
func examinePipeline(ctx context.Context, stateDir, file string, program *dsl.Program) []view.Finding {
	has := map[spec.Kind]bool{}
	for _, node := range program.Graph() {
		has[node.Kind] = has[node.Kind] || !node.OnPool
	}
	env, targets := program.Environment(), program.Targets()
	python, _ := pythonFor(stateDir, file)
	findings := checkPrograms(python, program.Programs())
	if has[spec.KindCompile] {
		findings = append(findings, checkModules(ctx, python, "onnx", "onnxruntime")...)
	}
	embedded := slices.ContainsFunc(slices.Collect(maps.Keys(targets)), func(name string) bool { return env.Targets[name].Embedded != nil })
	if has[spec.KindCompile] || embedded {
		findings = append(findings, checkLibrary(view.Missing))
	}
	if has[spec.KindClean] && env.Clean.Flink != nil {
		findings = append(findings, checkFlink(env.Clean.Flink))
	}
	findings = append(findings, checkPools(ctx, env, program.Pools())...)
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		findings = append(findings, checkTarget(ctx, stateDir, name, env)...)
	}
	return append(findings, checkSecrets(env, program.Pipeline(), slices.Sorted(maps.Keys(targets)))...)
}

// pythonFor returns the virtual environment in which the programs of a pipeline run, empty for the python3 in PATH, and why it is that one.
func pythonFor(stateDir, file string) (env, why string) {
	beside := state.PythonBeside(filepath.Dir(file))
	switch held, named := state.PythonOf(stateDir); {
	case named || state.PythonNamed() && beside == held:
		return held, "named by " + onnx.EnvironmentVariable
	case state.PythonNamed():
		return beside, "named by " + onnx.EnvironmentVariable
	case beside != "" && beside == state.ActivatedPython():
		return beside, "the activated environment"
	case beside != "" && file != "":
		return beside, "the nearest .venv of the pipeline"
	case beside != "":
		return beside, "the nearest .venv of this folder"
	case held != "":
		return held, "that of the process which holds " + stateDir
	}
	return "", "in PATH; there is no .venv here or above"
}

// checkPython says which Python programs find first, and why.
func checkPython(ctx context.Context, stateDir string, pipeline ...string) view.Finding {
	if err := state.CheckPython(); err != nil {
		detail, help, _ := strings.Cut(err.Error(), "\nhelp: ")
		return view.Finding{Name: "Python", State: view.Missing, Detail: detail, Help: help}
	}
	env, why := pythonFor(stateDir, strings.Join(pipeline, ""))
	program := filepath.Join(env, "bin", "python3")
	if env == "" {
		program = "python3"
	}
	f := checkProgram(ctx, program, view.Note, "steps that start Python need it: install python3, or create an environment with `python3 -m venv .venv`", "--version")
	f.Name = "Python"
	f.Detail += " (" + why + ")"
	return f
}

// checkPrograms looks for the programs that steps start, where the steps will look for them.
func checkPrograms(python string, programs map[string]string) []view.Finding {
	var findings []view.Finding
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if name == "bash" {
			continue // examine has looked for it
		}
		f := view.Finding{Name: name}
		path, err := exec.LookPath(filepath.Join(python, "bin", name))
		if python == "" || err != nil {
			path, err = exec.LookPath(name)
		}
		if f.Detail = path; err != nil {
			f.State, f.Detail, f.Help = view.Missing, "not in PATH", "step `"+programs[name]+"` starts it: install it"
		}
		findings = append(findings, f)
	}
	return findings
}

// probe prints the version of each module as JSON, null for what cannot be imported.
const probe = `import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = str(importlib.import_module(name).__version__)
    except Exception:
        found[name] = None
print(json.dumps(found))`

// checkModules looks for Python modules that `compile` steps use, in the virtual environment that they get; empty for the python3 in PATH.
func checkModules(ctx context.Context, env string, modules ...string) []view.Finding {
	python, install := filepath.Join(env, "bin", "python3"), "`"+filepath.Join(env, "bin", "pip")+" install onnx onnxruntime`"
	if env == "" {
		python, install = "python3", "`python3 -m venv .venv && .venv/bin/pip install onnx onnxruntime` beside the pipeline"
	}
	var found map[string]*string
	out, err := exec.CommandContext(ctx, python, append([]string{"-c", probe}, modules...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		return []view.Finding{{Name: "python", State: view.Missing, Detail: fmt.Sprintf("%s cannot be run: %v", python, err), Help: install}}
	}
	var findings []view.Finding
	for _, name := range modules {
		f := view.Finding{Name: name}
		if v := found[name]; v != nil {
			f.Detail = *v + ", by " + python
		} else {
			f.State, f.Detail, f.Help = view.Missing, "cannot be imported by "+python, "`compile` steps use it: "+install
		}
		findings = append(findings, f)
	}
	return findings
}

func checkFlink(flink *spec.FlinkRunner) view.Finding {
	f := view.Finding{Name: "Flink", Detail: "Java and the job server are installed"}
	if err := runner.CheckFlink(flink.JobServer); err != nil {
		f.State, f.Detail = view.Missing, err.Error()
		f.Help = "only needed with `clean: {flink: ...}` in the environment"
	}
	return f
}

// checkPools looks at what the pools need that train steps use.
func checkPools(ctx context.Context, env *spec.Environment, used map[string]string) []view.Finding {
	var findings []view.Finding
	local := false
	for _, name := range slices.Sorted(maps.Keys(used)) {
		pool := env.Pools[name]
		if local = local || pool.Local != nil; pool.Local != nil {
			continue
		}
		f := view.Finding{Name: "pool " + name, Detail: "its nodes are other machines"}
		switch {
		case !connect.ClusterNamed():
			f.State, f.Detail = view.Missing, control.Unreachable("localhost:0", "")
			f.Detail, f.Help, _ = strings.Cut(f.Detail, "\nhelp: ")
		case pool.Kubernetes != nil:
			f = withKubeconfig(f)
		case pool.EC2 != nil:
			f = withAWS(f)
		}
		findings = append(findings, f)
	}
	if local {
		findings = append(findings, checkAgent(view.Missing))
		findings = append(findings, checkGPUs(ctx)...)
	}
	return findings
}

// withKubeconfig adds where Kubernetes is described to a finding that is about a cluster.
func withKubeconfig(f view.Finding) view.Finding {
	home, _ := os.UserHomeDir()
	files := append(filepath.SplitList(os.Getenv("KUBECONFIG")), filepath.Join(home, ".kube", "config"))
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			f.Detail = "by " + file
			return f
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		f.Detail = "the cluster of this pod"
		return f
	}
	f.State, f.Detail, f.Help = view.Missing, "there is no kubeconfig", "set its path with $KUBECONFIG, or put it at ~/.kube/config"
	return f
}

// withAWS adds where credentials come from to a finding that is about EC2.
func withAWS(f view.Finding) view.Finding {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if os.Getenv(name) != "" {
			f.Detail = "credentials by $" + name
			return f
		}
	}
	home, _ := os.UserHomeDir()
	for _, file := range []string{filepath.Join(home, ".aws", "credentials"), filepath.Join(home, ".aws", "config")} {
		if _, err := os.Stat(file); err == nil {
			f.Detail = "credentials by " + file
			return f
		}
	}
	f.State, f.Detail = view.Note, "no credentials in the environment or in ~/.aws"
	f.Help = "on an EC2 instance its role is used; elsewhere set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	return f
}

// checkTarget looks whether a target's gateway can listen where it should, or does so already, whether its front door can be opened, whether
// the program and the files that it needs are here, and whether what it releases to can be used. Gateways of a target with a URL are those of
// `sluice serve`, which may run elsewhere.
func checkTarget(ctx context.Context, stateDir, name string, env *spec.Environment) []view.Finding {
	target := env.Targets[name]
	f := view.Finding{Name: "target " + name, Detail: "its ports are free, or already its own"}
	switch {
	case target.KServe != nil:
		f = withKubeconfig(f)
	case target.Triton != nil:
		f = withTriton(ctx, f, *target.Triton)
	}
	var findings []view.Finding
	for _, err := range slices.Concat(control.CheckPorts(stateDir, name, target), checkFiles(target), checkDoor(ctx, name, env)) {
		fault := view.Finding{Name: f.Name, State: view.Missing}
		fault.Detail, fault.Help, _ = strings.Cut(err.Error(), "\nhelp: ")
		if target.URL() != "" {
			fault.State, fault.Help = view.Note, "`sluice serve` needs it, where it runs: "+fault.Help
		}
		findings = append(findings, fault)
	}
	if len(findings) == 0 || f.State != view.Fine {
		findings = append(findings, f)
	}
	return findings
}

// withTriton adds whether models can be written and loaded to a finding that is about a Triton.
func withTriton(ctx context.Context, f view.Finding, target spec.TritonTarget) view.Finding {
	f.Detail = target.Server + " loads models on request"
	if err := triton.Check(ctx, target); err != nil {
		f.State, f.Detail, f.Help = view.Missing, err.Error(), "gateways write models to `repository` and have Triton load them, by `server`"
		if target.URL != "" {
			f.State = view.Note
		}
	}
	return f
}

// checkFiles says that the program of a target is missing, or that its access log cannot be written.
func checkFiles(target spec.Target) (errs []error) {
	if p := target.Process; p != nil && !strings.Contains(p.Command[0], "${") {
		if _, err := exec.LookPath(p.Command[0]); err != nil {
			errs = append(errs, fmt.Errorf("its command cannot be started: %w\nhelp: install it, or write its path: it is started for each release", err))
		}
	}
	if log := target.Gateway.AccessLog; log != "" && log != spec.StandardOutput {
		if err := access.Check(log); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkDoor says why the front door of a target cannot be opened. Of the API keys it reads those that are here: checkSecrets says which are not.
func checkDoor(ctx context.Context, name string, env *spec.Environment) (errs []error) {
	front := env.Targets[name].Gateway
	front.Keys = slices.DeleteFunc(slices.Clone(front.Keys), func(key spec.GatewayKey) bool {
		source := env.Secrets[key.Secret]
		return source.Vault != "" || absent(source) != nil
	})
	secrets := secret.NewResolver()
	for _, err := range door.Check(ctx, door.Options{Target: name, Gateway: front, Secret: func(ctx context.Context, name string) (string, bool, error) {
		value, err := secrets.Value(ctx, env, name)
		return value, secret.Temporary(err), err
	}}) {
		errs = append(errs, fmt.Errorf("its `gateway` cannot be used: %w", err))
	}
	return errs
}

// absent says that the variable or the file of a secret is not here.
func absent(source spec.SecretSource) error {
	switch {
	case source.Env != "" && os.Getenv(source.Env) == "":
		return fmt.Errorf("$%s is not set", source.Env)
	case source.File != "":
		_, err := os.Stat(source.File)
		return err
	}
	return nil
}

// checkSecrets looks whether the secrets are there that steps and the front doors of targets ask for. What Vault has is not asked.
func checkSecrets(env *spec.Environment, p *spec.Pipeline, targets []string) []view.Finding {
	var findings []view.Finding
	seen := map[string]bool{}
	check := func(name, who string, without view.Health) {
		source, known := env.Secrets[name]
		if seen[name] || !known {
			return
		}
		seen[name] = true
		f := view.Finding{Name: "secret " + name, Detail: "in Vault"}
		switch {
		case source.Env != "":
			f.Detail, f.Help = "$"+source.Env+" is set", who+" asks for it: set it where Sluice is started"
		case source.File != "":
			f.Detail, f.Help = source.File, who+" asks for it"
		}
		if err := absent(source); err != nil {
			f.State, f.Detail = without, err.Error()
		} else {
			f.Help = ""
		}
		findings = append(findings, f)
	}
	for _, step := range slices.Concat(p.Steps, p.OnFailure, p.Finally) {
		for _, variable := range slices.Sorted(maps.Keys(step.Secrets)) {
			check(step.Secrets[variable], "step `"+step.ID+"`", view.Missing)
		}
	}
	for _, name := range targets {
		target, without := env.Targets[name], view.Health(view.Missing)
		if target.URL() != "" { // its gateways are those of `sluice serve`, which may run elsewhere
			without = view.Note
		}
		for _, key := range target.Gateway.Keys {
			check(key.Secret, "the front door of the target `"+name+"`", without)
		}
	}
	return findings
}
