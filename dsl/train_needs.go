package dsl

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/gputype"
)

// checkTrainNeeds reports what a node cannot have, and what cannot be started there.
func checkTrainNeeds(spec *spec.Train, c *checker, s *step) {
	gpu := document.Lookup(s.body, "resources", "gpu")
	isMeant := slices.Contains(c.d.MeantKeys(document.Lookup(s.body, "resources")), "gpu")
	if r := spec.Resources; r.Memory > 0 && r.SHM > r.Memory {
		c.src.Warnf(document.Lookup(s.body, "resources", "shm"), "resources", "request more `memory`", "`memory: %s` includes `shm`, which is %s", r.Memory, r.SHM)
	}
	if at := document.Lookup(s.body, "resources", "gpu_type"); at != nil && !isMeant && (gpu == nil || gpu.Value == "0") {
		c.src.Errorf(at, "resources", "write `gpu: 1` beside it", "`%s` sets `gpu_type`, but `gpu` is 0", s.ID)
	}
	if idle := document.Lookup(s.body, "resources", "idle"); idle != nil && spec.Resources.Idle != nil {
		if gpu == nil && !isMeant {
			c.src.Errorf(document.KeyNode(document.Lookup(s.body, "resources"), "idle"), "resources", "write `gpu: 1` beside it", "`%s` sets `idle`, but `gpu` is 0", s.ID)
		}
		if below := document.Lookup(idle, "below"); below != nil && spec.Resources.Idle.Below <= 0 && !strings.Contains(below.Value, "${") {
			c.src.Errorf(below, "range", "write a share such as 30%", "the use of a GPU cannot be less than %s", below.Value)
		}
		decode.Positive(c.src, idle, "for")
	}
	decode.HasUnit(c.src, document.Lookup(s.body, "resources"), "memory")
	decode.HasUnit(c.src, document.Lookup(s.body, "resources"), "shm")
	environment.CheckImage(c.src, document.Lookup(s.body, "runtime", "image"))
	hang := document.Lookup(s.body, "hang")
	decode.Positive(c.src, hang, "after")
	decode.Positive(c.src, hang, "startup")
	checkLauncher(spec, c, s)
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
		if !document.IsInside(file) {
			c.src.Errorf(at, "path", "copy it there and name the copy in the pool, or give the step a `runtime` of its own",
				"the pool `%s` installs %q, which is outside the pipeline's folder", name, file)
		} else if !c.ws.Exists(path.Clean(file)) {
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
	mayBe := func(gpuType string) bool {
		return gputype.Is(node.GPUType, gpuType) || gputype.Is(gpuType, node.GPUType)
	}
	for _, r := range []struct {
		key         string
		lacks       bool
		wants, have string
	}{
		{"cpu", node.CPU > 0 && want.CPU > node.CPU, fmt.Sprintf("%g cores", want.CPU), fmt.Sprintf("has %g", node.CPU)},
		{"memory", node.Memory > 0 && want.Memory > node.Memory, want.Memory.String(), "has " + node.Memory.String()},
		{"gpu", want.GPU > node.GPU, plural(want.GPU, "GPU"), fmt.Sprintf("has %d", node.GPU)},
		{
			"gpu_type", want.GPU > 0 && node.GPUType != "" && len(want.GPUType) > 0 && !slices.ContainsFunc(want.GPUType, mayBe),
			"a GPU of type " + strings.Join(want.GPUType, " or "), "has " + node.GPUType,
		},
	} {
		if r.lacks {
			c.src.Errorf(document.PlaceOf(s.body, "resources", r.key), "resources", "request less, or use another pool",
				"`%s` needs %s, but a node of the pool `%s` %s", s.ID, r.wants, pool, r.have)
		}
	}
}
