package control

import (
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/objectstore"
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

// checkTemplates refuses what is no template for the pods or instances of a pool.
func checkTemplates(file string, env *spec.Environment) error {
	for _, name := range slices.Sorted(maps.Keys(env.Pools)) {
		if cluster := env.Pools[name].Kubernetes; cluster != nil {
			template, err := podtemplate.Parse(cluster.Pod)
			if err != nil {
				return fault.Errorf(fault.Invalid, "%s: pools.%s.kubernetes.pod: %w\nhelp: it is a PodTemplateSpec of Kubernetes: `kubectl explain podtemplate.template`", file, name, err)
			}
			if spec.FileCacheOf(cluster.FileCache, false) > 0 && !podtemplate.HasFileCache(template) {
				return fault.Errorf(fault.Invalid, "%s: pools.%s.kubernetes.file_cache: the template `pod` has no volume to keep the files on\n"+
					"help: add one to its spec.volumes: {name: %s, hostPath: {path: /var/cache/sluice, type: DirectoryOrCreate}}", file, name, podtemplate.FileCache)
			}
		}
		if cloud := env.Pools[name].EC2; cloud != nil {
			if _, err := instancetemplate.Parse(cloud.Instance); err != nil {
				return fault.Errorf(fault.Invalid, "%s: pools.%s.ec2.instance: %w\nhelp: it is the data of a launch template: RequestLaunchTemplateData in the EC2 API reference", file, name, err)
			}
		}
	}
	return nil
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
