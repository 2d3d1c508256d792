package dsl

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkTrainNeeds reports what a node cannot have, and what cannot be started there.
func checkTrainNeeds(spec *spec.Train, c *checker, s *step) {
	if at := document.Lookup(s.body, "resources", "gpu_type"); at != nil && document.Lookup(s.body, "resources", "gpu") == nil {
		c.src.Errorf(at, "resources", "write `gpu: 1` beside it", "`%s` sets `gpu_type`, but `gpu` is 0", s.ID)
	}
	if idle := document.Lookup(s.body, "resources", "idle"); idle != nil && spec.Resources.Idle != nil {
		if document.Lookup(s.body, "resources", "gpu") == nil {
			c.src.Errorf(document.KeyNode(document.Lookup(s.body, "resources"), "idle"), "resources", "write `gpu: 1` beside it", "`%s` sets `idle`, but `gpu` is 0", s.ID)
		}
		if below := document.Lookup(idle, "below"); below != nil && spec.Resources.Idle.Below <= 0 && !strings.Contains(below.Value, "${") {
			c.src.Errorf(below, "range", "write a share such as 30%", "the use of a GPU cannot be less than %s", below.Value)
		}
		positive(c.src, idle, "for")
	}
	for _, key := range []string{"memory", "shm"} {
		at := document.Lookup(s.body, "resources", key)
		if size, err := parseSize(at); err == nil && size > 0 && size < 1<<20 {
			c.src.Errorf(at, "size", "write its unit: "+at.Value+"GiB", "`%s` of a node is %s bytes here", key, at.Value)
		}
	}
	if hang := document.Lookup(s.body, "hang"); hang != nil {
		positive(c.src, hang, "after")
		positive(c.src, hang, "startup")
	}
	checkLauncher(spec, c, s)
}

func parseSize(n *yaml.Node) (spec.Size, error) {
	if n == nil {
		return 0, nil
	}
	return spec.ParseSize(n.Value)
}

// checkTrainPool reports what one pool cannot give the step.
func checkTrainPool(sp *spec.Train, c *checker, s *step, name string) {
	checkGangSize(sp, c, s, name)
	pool := c.env.Pools[name]
	if at := document.Lookup(s.body, "runtime", "image"); at != nil && pool.Local != nil {
		c.src.Errorf(at, "runtime", "use a pool of `kubernetes` or `ec2`, or `python: requirements.txt`",
			"the pool `%s` starts processes on this machine, not containers", name)
	}
	if file := pool.Runtime.Python; c.ws != nil && file != "" && sp.Runtime.Python == "" {
		at := s.kindKey()
		if !c.ws.Exists(path.Clean(file)) {
			c.src.Errorf(at, "missing-file", "add it, or give the step a `runtime` of its own",
				"the pool `%s` installs %q, which does not exist beside the pipeline", name, file)
		} else if why, help := c.ws.LeftOut(path.Clean(file)); why != "" {
			c.src.Errorf(at, "left-out", help, "the pool `%s` installs %q, which is not part of the run's workspace: %s", name, file, why)
		}
		c.readRequirements(at, file)
	}
	checkNodeOf(sp, c, s, name, pool.Node)
}

// checkNodeOf compares the step's resources with what a node of the pool has. A node that is not described may have anything.
func checkNodeOf(sp *spec.Train, c *checker, s *step, pool string, node spec.NodeShape) {
	if node == (spec.NodeShape{}) {
		return
	}
	want := sp.Resources
	for _, r := range []struct {
		key         string
		lacks       bool
		wants, have string
	}{
		{"cpu", node.CPU > 0 && want.CPU > node.CPU, fmt.Sprintf("%g cores", want.CPU), fmt.Sprintf("has %g", node.CPU)},
		{"memory", node.Memory > 0 && want.Memory > node.Memory, want.Memory.String(), "has " + node.Memory.String()},
		{"gpu", want.GPU > node.GPU, plural(want.GPU, "GPU"), fmt.Sprintf("has %d", node.GPU)},
		{
			"gpu_type", want.GPU > 0 && node.GPUType != "" && len(want.GPUType) > 0 && !slices.Contains(want.GPUType, node.GPUType),
			"a GPU of type " + strings.Join(want.GPUType, " or "), "has " + node.GPUType,
		},
	} {
		if r.lacks {
			c.src.Errorf(document.PlaceOf(s.body, "resources", r.key), "resources", "request less, or use another pool",
				"`%s` needs %s, but a node of the pool `%s` %s", s.ID, r.wants, pool, r.have)
		}
	}
}

// checkPools reports what the environment says of its pools and cannot be.
func checkPools(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for key, body := range document.Entries(root, "pools") {
		if at := document.Lookup(body, "runtime", "image"); at != nil && env.Pools[key.Value].Local != nil {
			src.Errorf(at, "runtime", "use `kubernetes` or `ec2`, or `python: requirements.txt`", "the pool `%s` starts processes on this machine, not containers", key.Value)
		}
		checkSold(src, key, document.Lookup(body, "capacity"))
		emptyLists(src, document.Lookup(body, "ec2"), "types", "subnets")
		checkLaunchTemplate(src, document.Lookup(body, "ec2"))
		positive(src, document.Lookup(body, "local", "interruptions"), "mean_up")
		if at := document.Lookup(body, "metrics_listen"); at != nil && !isAddress(at.Value) {
			src.Errorf(at, "listen", "write a host and a port, such as 0.0.0.0:9465", "`metrics_listen` is not an address to listen on")
		}
	}
}

// checkLaunchTemplate reports a pool of EC2 whose instances are described twice, or by a launch template that is not named.
func checkLaunchTemplate(src *document.Source, pool *yaml.Node) {
	at := document.Lookup(pool, "launch_template")
	if at == nil {
		return
	}
	exactlyOne[spec.LaunchTemplate](src, document.KeyNode(pool, "launch_template"), at, "`launch_template`")
	if document.Lookup(pool, "instance") != nil {
		src.Errorf(at, "one-of", "add what `instance` says to the launch template, or the other way round", "`launch_template` and `instance` cannot be combined")
	}
}

// isAddress reports whether something may be an address host:port.
func isAddress(s string) bool {
	i := strings.LastIndex(s, ":")
	_, err := strconv.ParseUint(s[i+1:], 10, 16)
	return i > 0 && err == nil
}

// checkSold reports a pool that sells nothing, or the same twice.
func checkSold(src *document.Source, pool, sold *yaml.Node) {
	if sold == nil || sold.Kind != yaml.SequenceNode {
		return
	}
	if len(sold.Content) == 0 {
		src.Errorf(sold, "capacity", "write `capacity: [spot, on_demand]`, or remove it for on_demand only", "the pool `%s` has no capacity type", pool.Value)
	}
	for i, item := range sold.Content {
		if slices.ContainsFunc(sold.Content[:i], func(before *yaml.Node) bool { return before.Value == item.Value }) {
			src.Errorf(item, "capacity", "remove it", "`%s` is listed twice", item.Value)
		}
	}
}

// emptyLists reports lists of a mapping that must have something in them.
func emptyLists(src *document.Source, n *yaml.Node, keys ...string) {
	for _, key := range keys {
		if at := document.Lookup(n, key); at != nil && at.Kind == yaml.SequenceNode && len(at.Content) == 0 {
			src.Errorf(at, "required", "", "`%s` is empty", key)
		}
	}
}

// positive reports a duration that is none.
func positive(src *document.Source, n *yaml.Node, key string) {
	at := document.Lookup(n, key)
	if at == nil {
		return
	}
	if d, err := spec.ParseDuration(at.Value); err == nil && d <= 0 {
		src.Errorf(at, "range", "write it as 30s or 2h", "%s is not a positive duration", at.Value)
	}
}
