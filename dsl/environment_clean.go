package dsl

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// CleanSettings limit the cleaning's child process and say where its Beam graph runs: at most one of Flink, Spark and Dataflow.
// Without any of them the child works alone, on Beam's own runner for one machine.
type CleanSettings struct {
	// Memory bounds the child's memory, and the heap of the job server it starts. Default 1GiB.
	Memory Size `json:"memory,omitempty" dsl:"default=1GiB"`
	// Flink runs the cleaning on Apache Flink.
	Flink *FlinkRunner `json:"flink,omitempty"`
	// Spark runs the cleaning on Apache Spark, by a job service of its own.
	Spark *JobService `json:"spark,omitempty"`
	// Dataflow runs the cleaning on Google's Dataflow, by a job service of its own.
	Dataflow *JobService `json:"dataflow,omitempty"`
}

// FlinkRunner is Apache Flink behind a job server that is started for each cleaning.
type FlinkRunner struct {
	// Master is the address of a Flink cluster: host:port of its REST interface. Absent: a cluster inside the job server, on this machine.
	Master string `json:"master,omitempty"`
	// JobServer is Beam's job server for that version of Flink: a jar, or a folder of jars. Default: flink in $SLUICE_CACHE.
	JobServer string `json:"job_server,omitempty"`
	// Parallelism is how many slots of the cluster a cleaning takes. Default: one for each CPU of this machine.
	Parallelism int `json:"parallelism,omitempty" dsl:"min=1,max=10000"`
}

// JobService is a service of Beam's job API that runs already.
type JobService struct {
	// Endpoint is its address: host:port.
	Endpoint string `json:"endpoint"`
	// Parallelism is how many slots of the cluster a cleaning takes. Default: one for each CPU of this machine.
	Parallelism int `json:"parallelism,omitempty" dsl:"min=1,max=10000"`
}

// checkRunner reports two runners, and addresses that are none.
func checkRunner(src *document.Source, root *yaml.Node) {
	clean := document.Lookup(root, "clean")
	first := ""
	for key, n := range document.Entries(root, "clean") {
		address := ""
		switch key.Value {
		case "flink":
			address = "master"
		case "spark", "dataflow":
			address = "endpoint"
		default:
			continue
		}
		if first != "" {
			src.Errorf(key, "one-of", "keep one of them", "a cleaning runs on one runner, and `%s` is there already", first)
		}
		first = key.Value
		if at := document.Lookup(clean, key.Value, address); n.Kind == yaml.MappingNode && at != nil && at.Kind == yaml.ScalarNode && !hostPort(at.Value) {
			src.Errorf(at, "url", "write host:port, such as flink.example.com:8081", "%q is not where a cluster can be reached", at.Value)
		}
	}
}

func hostPort(address string) bool {
	at := strings.LastIndexByte(address, ':')
	if at <= 0 || strings.ContainsAny(address, "/@ ") {
		return false
	}
	port, err := strconv.ParseUint(address[at+1:], 10, 16)
	return err == nil && port > 0
}
