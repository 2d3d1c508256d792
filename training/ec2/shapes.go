package ec2

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// fitting returns the pool's instance types that have what each node must have, in the pool's order. ErrTooLarge when none has.
func (p *Pool) fitting(ctx context.Context, want spec.Resources) ([]types.InstanceTypeInfo, error) {
	var asked []types.InstanceType
	for _, name := range p.opts.Spec.Types {
		asked = append(asked, types.InstanceType(name))
	}
	out, err := p.api.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: asked})
	if err != nil {
		return nil, explain("DescribeInstanceTypes", err)
	}
	slices.SortFunc(out.InstanceTypes, func(a, b types.InstanceTypeInfo) int {
		return cmp.Compare(slices.Index(asked, a.InstanceType), slices.Index(asked, b.InstanceType))
	})
	var fit []types.InstanceTypeInfo
	var others []string
	for _, t := range out.InstanceTypes {
		if lack := lacks(t, want); lack != "" {
			others = append(others, fmt.Sprintf("%s %s", t.InstanceType, lack))
			continue
		}
		fit = append(fit, t)
	}
	if len(fit) == 0 {
		return nil, fmt.Errorf("no instance type of the pool is suitable: %s: %w", strings.Join(others, "; "), training.ErrTooLarge)
	}
	return fit, nil
}

// lacks says what an instance type does not have that a node must have, with both figures; "" when it has everything.
func lacks(t types.InstanceTypeInfo, want spec.Resources) string {
	shape := shapeOf(t)
	switch {
	case t.ProcessorInfo != nil && !slices.Contains(t.ProcessorInfo.SupportedArchitectures, architecture()):
		return fmt.Sprintf("is not %s, which the agent was built for", architecture())
	case want.CPU > float64(shape.cores):
		return fmt.Sprintf("has %d cores, but the step needs %v", shape.cores, want.CPU)
	case want.Memory > shape.memory:
		return fmt.Sprintf("has %s of memory, but the step needs %s", shape.memory, want.Memory)
	case (want.GPU > 0 || len(want.GPUType) > 0) && max(1, want.GPU) > shape.gpus:
		return fmt.Sprintf("has %d GPUs, but the step needs %d", shape.gpus, max(1, want.GPU))
	case len(want.GPUType) > 0 && !slices.ContainsFunc(want.GPUType, func(name string) bool { return sameModel(name, shape.gpu) }):
		return fmt.Sprintf("has the GPU %s, but the step needs %s", shape.gpu, strings.Join(want.GPUType, " or "))
	case want.SHM > shape.memory:
		return fmt.Sprintf("has %s of memory, but the step needs %s of it as shm", shape.memory, want.SHM)
	}
	return ""
}

// shape is what an instance type has.
type shape struct {
	cores, gpus int
	gpu         string
	memory      spec.Size
}

func shapeOf(t types.InstanceTypeInfo) shape {
	var s shape
	if t.VCpuInfo != nil {
		s.cores = int(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		s.memory = spec.Size(aws.ToInt64(t.MemoryInfo.SizeInMiB) << 20)
	}
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			s.gpus += int(aws.ToInt32(g.Count))
			s.gpu = aws.ToString(g.Name)
		}
	}
	return s
}

// sameModel compares names of a GPU, which are written with and without its maker, blanks and case: A10G, NVIDIA-A10G, "NVIDIA A10G".
func sameModel(a, b string) bool {
	plain := func(s string) string {
		s = strings.ToLower(s)
		s = strings.NewReplacer(" ", "", "-", "", "_", "").Replace(s)
		return strings.TrimPrefix(s, "nvidia")
	}
	return plain(a) == plain(b)
}
