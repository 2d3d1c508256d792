package control

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/template"
	"github.com/sluiceml/sluice/serving/kserve/predictor"
	"github.com/sluiceml/sluice/training/ec2/instancetemplate"
	"github.com/sluiceml/sluice/training/kubernetes/podtemplate"
)

// checkPools refuses a pipeline of which a step may run on other machines, where those could not reach this session.
func (s *Session) checkPools(program *dsl.Program) error {
	used, pools := program.Pools(), program.Environment().Pools
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if pools[name].Local != nil {
			continue
		}
		if why := Unreachable(s.Info.TemporalAddress, s.Store.URL()); why != "" {
			return fault.Errorf(fault.Invalid, "`%s` runs on the pool `%s`, whose nodes are other machines: %s", used[name], name, why)
		}
	}
	return nil
}

// CheckTemplates reports what is no template for the pods or instances of a pool, or for the InferenceServices of a target. The language
// knows neither Kubernetes nor EC2, nor KServe.
func CheckTemplates(file document.File, env *spec.Environment) document.Diagnostics {
	src := document.New(file)
	root := src.Parse(file.Source)
	if root == nil {
		return nil // of the default environment, or reported
	}
	for _, name := range slices.Sorted(maps.Keys(env.Pools)) {
		if cluster := env.Pools[name].Kubernetes; cluster != nil {
			at := document.PlaceOf(root, "pools", name, "kubernetes", "pod")
			template, err := podtemplate.Parse(cluster.Pod)
			if err != nil {
				notTemplate(src, at, err, "it is a PodTemplateSpec of Kubernetes: `kubectl explain podtemplate.template`")
			} else if spec.FileCacheOf(cluster.FileCache, false) > 0 && !podtemplate.HasFileCache(template) {
				src.Errorf(document.PlaceOf(root, "pools", name, "kubernetes", "file_cache"), "required",
					"add one to its spec.volumes: {name: "+podtemplate.FileCache+", hostPath: {path: /var/cache/sluice, type: DirectoryOrCreate}}",
					"the template `pod` has no volume to keep the files on")
			}
		}
		if cloud := env.Pools[name].EC2; cloud != nil {
			if _, err := instancetemplate.Parse(cloud.Instance); err != nil {
				at := document.PlaceOf(root, "pools", name, "ec2", "instance")
				notTemplate(src, at, err, "it is the data of a launch template: RequestLaunchTemplateData in the EC2 API reference")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env.Targets)) {
		if served := env.Targets[name].KServe; served != nil {
			if _, err := predictor.Parse(served.Predictor); err != nil {
				at := document.PlaceOf(root, "targets", name, "kserve", "predictor")
				notTemplate(src, at, err, "it is the predictor of KServe "+predictor.Version+": `kubectl explain inferenceservice.spec.predictor`")
			}
		}
	}
	src.Findings.Sort()
	return src.Findings
}

// pathPart is a key, or an index, of the path of a field.
var pathPart = regexp.MustCompile(`[^.\[\]]+`)

// notTemplate reports what is wrong of a template, each at its field, or at what is there of the way to it.
func notTemplate(src *document.Source, at *yaml.Node, err error, hint string) {
	for _, err := range template.Errors(err) {
		code, place := "type", at
		if wrong, ok := errors.AsType[*template.FieldError](err); ok {
			if wrong.Unknown {
				code = "unknown-key"
			}
			for _, part := range pathPart.FindAllString(wrong.Field, -1) {
				if i, err := strconv.Atoi(part); err == nil && place.Kind == yaml.SequenceNode {
					place = document.PlaceOf(place, i)
				} else {
					place = document.PlaceOf(place, part)
				}
			}
		}
		src.Errorf(place, code, hint, "%v", err)
	}
}

// Unreachable says why nodes that are other machines could not work: empty when they could.
func Unreachable(temporalAddress, storeURL string) string {
	host, _, err := net.SplitHostPort(temporalAddress)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())) {
		return fmt.Sprintf("they cannot reach Temporal at %s\nhelp: set TEMPORAL_ADDRESS to a Temporal cluster that they can reach, for the worker and for this command", temporalAddress)
	}
	if !objectstore.IsAddress(storeURL) {
		return fmt.Sprintf("they cannot reach the store %s\nhelp: set SLUICE_STORE to a bucket (s3://... or gs://...), for the worker and for this command", storeURL)
	}
	return ""
}
