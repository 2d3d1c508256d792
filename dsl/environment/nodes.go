package environment

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// The forms of what EC2 gives an ID or a name.
var (
	instanceType = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
	awsZone      = regexp.MustCompile(`^([a-z]{2,3}(?:-[a-z]+)+-[0-9]+)[a-z]$`)
)

// checkEC2 reports a pool of EC2 of which no instance could be launched.
func checkEC2(src *document.Source, pool *yaml.Node) {
	emptyLists(src, pool, "types", "subnets")
	checkLaunchTemplate(src, pool)
	if at := document.Lookup(pool, "region"); at != nil {
		checkZone(src, at, at.Value)
	}
	for _, list := range []struct{ key, what, such string }{
		{"types", "an instance type", "g6.2xlarge"},
		{"subnets", "the ID of a subnet", "subnet-0a1b2c3d"},
		{"security_groups", "the ID of a security group", "sg-0a1b2c3d"},
		{"image", "the ID of a machine image or a parameter with it", "ami-0a1b2c3d or /aws/service/..."},
	} {
		prefix, _, _ := strings.Cut(list.such, "-")
		for _, at := range document.Items(document.Lookup(pool, list.key)) {
			switch isID := strings.HasPrefix(at.Value, prefix+"-"); {
			case at.Kind != yaml.ScalarNode || at.Tag == "!!null" || isID:
			case list.key == "types" && instanceType.MatchString(at.Value):
			case list.key == "image" && (strings.HasPrefix(at.Value, "/") || strings.HasPrefix(at.Value, "resolve:")):
			default:
				src.Errorf(at, "name", "write for example "+list.such, "%q is not %s", at.Value, list.what)
			}
		}
	}
	if at := document.Lookup(pool, "instance_profile"); at != nil && strings.HasPrefix(at.Value, "arn:") {
		src.Errorf(at, "name", "write "+at.Value[strings.LastIndexByte(at.Value, '/')+1:], "an instance profile is named without its ARN")
	}
}

// checkZone reports a zone in the place of its region, which is written at a place.
func checkZone(src *document.Source, at *yaml.Node, region string) {
	if m := awsZone.FindStringSubmatch(region); m != nil {
		src.Errorf(at, "name", "write "+m[1], "%s is a zone of the region %s", region, m[1])
	}
}

var urlRegion = regexp.MustCompile(`[?&]region=([^&]*)`)

// CheckRegion reports a zone in the place of the region of a bucket, in its URL.
func CheckRegion(src *document.Source, at *yaml.Node) {
	if m := urlRegion.FindStringSubmatch(at.Value); m != nil {
		checkZone(src, at, m[1])
	}
}

// kubernetesName is what Kubernetes takes for the name of an object.
var kubernetesName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// checkKubernetes reports names that no object of a cluster can have, and a cache without a unit.
func checkKubernetes(src *document.Source, pool *yaml.Node) {
	for _, key := range []string{"namespace", "queue", "service_account"} {
		if at := document.Lookup(pool, key); at != nil && at.Kind == yaml.ScalarNode && at.Value != "" && !kubernetesName.MatchString(at.Value) {
			src.Errorf(at, "name", "use lower-case letters, digits and `-`", "no `%s` of Kubernetes can be called %q", key, at.Value)
		}
	}
	decode.HasUnit(src, pool, "file_cache")
}

// checkLaunchTemplate reports a pool of EC2 whose instances are described twice, or by a launch template that is not named.
func checkLaunchTemplate(src *document.Source, pool *yaml.Node) {
	at := document.Lookup(pool, "launch_template")
	if at == nil {
		return
	}
	decode.ExactlyOne[spec.LaunchTemplate](src, document.KeyNode(pool, "launch_template"), at, "`launch_template`")
	if document.Lookup(pool, "instance") != nil {
		src.Errorf(at, "one-of", "add what `instance` says to the launch template, or the other way round", "`launch_template` and `instance` cannot be combined")
	}
}
