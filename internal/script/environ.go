package script

import (
	"os"
	"slices"
	"strings"
)

// inheritedNames are the variables of a worker that the user's programs get: what tells them where they are, in which language and zone,
// how the network is reached and which certificates are trusted. Everything else a step names in `env` or `secrets`.
var inheritedNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP",
	"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
	"LD_LIBRARY_PATH", "JAVA_HOME", "VIRTUAL_ENV", "SLUICE_CACHE",
}

// inheritedPrefixes begin the variables of language runtimes, package managers and numeric libraries.
var inheritedPrefixes = []string{
	"LC_", "XDG_", "PYTHON", "PYENV_", "CONDA_", "PIP_", "UV_", "NPM_CONFIG_", "npm_config_",
	"CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "HIP_", "ROCR_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "TORCH", "TF_", "XLA_", "ORT_", "HF_", "TRANSFORMERS_",
}

// secretWords are in the names of variables that hold credentials, whatever they begin with: HF_TOKEN, NPM_CONFIG__AUTH, PIP_PASSWORD.
var secretWords = []string{"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "API_KEY", "ACCESS_KEY", "PRIVATE"}

// inheritable reports whether the user's programs get a variable of the worker's.
func inheritable(name string) bool {
	if slices.Contains(inheritedNames, name) {
		return true
	}
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(inheritedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) &&
		!slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(upper, w) })
}

// storePrefixes begin the variables by which stores in buckets, and Temporal, are reached. A program that may call sluice needs them.
var storePrefixes = []string{"AWS_", "GOOGLE_", "AZURE_", "TEMPORAL_"}

// storeKeys are credentials of buckets that a pool has put into the environment of a node for its agent.
var storeKeys = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}

// credentials are what a user's program must never inherit: whoever holds them rules the whole namespace, or reads all secrets.
var credentials = []string{
	"SLUICE_TEMPORAL_TOKEN", "SLUICE_LABEL_KEY", "SLUICE_CODEC_KEYS", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH",
	"VAULT_TOKEN",
}

// headerPrefix begins the variables that Temporal's client sends as headers of every call, its credentials among them.
const headerPrefix = "TEMPORAL_GRPC_META_"

func credential(variable string) bool {
	return slices.Contains(credentials, variable) || strings.HasPrefix(variable, headerPrefix)
}

// inherited is what the program gets of this process's environment.
func (s *Setup) inherited() []string {
	return Merge(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(s.Withhold, name):
			return true
		case s.Node:
			return slices.Contains(storeKeys, name)
		case s.State != "" && slices.ContainsFunc(storePrefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
			return false
		}
		return !inheritable(name)
	}), nil)
}

// Merge returns base without Sluice's credentials and with vars set, sorted.
func Merge(base []string, vars map[string]string) []string {
	var env []string
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := vars[name]; !replaced && !credential(name) {
			env = append(env, kv)
		}
	}
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
