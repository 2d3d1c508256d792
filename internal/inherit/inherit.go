// Package inherit says which variables of a worker the user's programs get.
package inherit

import (
	"slices"
	"strings"
)

// names are the variables of a worker that the user's programs get: what tells them where they are, in which language and zone,
// how the network is reached and which certificates are trusted. Everything else a step names in `env` or `secrets`.
var names = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP",
	"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
	"LD_LIBRARY_PATH", "JAVA_HOME", "VIRTUAL_ENV", "SLUICE_CACHE",
}

// prefixes begin the variables of language runtimes, package managers and numeric libraries.
var prefixes = []string{
	"LC_", "XDG_", "PYTHON", "PYENV_", "CONDA_", "PIP_", "UV_", "NPM_CONFIG_", "npm_config_",
	"CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "HIP_", "ROCR_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "TORCH", "TF_", "XLA_", "ORT_", "HF_", "TRANSFORMERS_",
}

// secretWords are in the names of variables that hold credentials, whatever they begin with: HF_TOKEN, NPM_CONFIG__AUTH, PIP_PASSWORD.
var secretWords = []string{"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "API_KEY", "ACCESS_KEY", "PRIVATE"}

// Inheritable reports whether the user's programs get a variable of the worker's.
func Inheritable(name string) bool {
	if slices.Contains(names, name) {
		return true
	}
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) &&
		!slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(upper, w) })
}

// storePrefixes begin the variables by which stores in buckets, and Temporal, are reached. A program that may call sluice needs them.
var storePrefixes = []string{"AWS_", "GOOGLE_", "AZURE_", "TEMPORAL_"}

// OfStore reports whether a program that may call sluice gets a variable, beside those that all get.
func OfStore(name string) bool {
	return slices.ContainsFunc(storePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
