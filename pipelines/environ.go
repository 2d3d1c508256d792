package pipelines

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// These lists name the environment variables that a child process inherits. Other variables may hold secrets of this process, such as
// credentials for Temporal or keys of the vault and the payloads, and are not passed on. A job's own secrets reach the child through its
// standard input.
var (
	everyChild = []string{
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_*", "XDG_CACHE_HOME", "LD_LIBRARY_PATH",
		"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
	}
	flinkChild = []string{"JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SLUICE_CACHE"}
	// bucketChild is what clients of buckets read. It includes credentials, so only jobs that use buckets get it.
	bucketChild = []string{
		"AWS_*", "GOOGLE_*", "CLOUDSDK_*", "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}
)

// childEnviron returns the variables of environ that the child of a job needs; text is the job as JSON.
func childEnviron(environ []string, job Job, text []byte) []string {
	wanted := everyChild
	if job.Runner.Flink != nil {
		wanted = slices.Concat(wanted, flinkChild)
	}
	if bytes.Contains(text, []byte("s3://")) || bytes.Contains(text, []byte("gs://")) {
		wanted = slices.Concat(wanted, bucketChild)
	}
	env := []string{} // nil would mean the whole environment
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if slices.ContainsFunc(wanted, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			env = append(env, kv)
		}
	}
	return env
}
