package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training"
)

// launch returns the instances of the gang, which it launches if none lives.
func (p *Pool) launch(ctx context.Context, r training.Request) ([]string, error) {
	p.launching.Lock()
	defer p.launching.Unlock()
	known, err := p.find(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	if living := alive(known); len(living) > 0 {
		return idsOf(of(tagOf(living[0].Tags, tagTry), known)), nil
	}
	fit, err := p.fitting(ctx, r.Resources)
	if err != nil {
		return nil, err
	}
	n, err := p.admit(ctx, r, fit)
	if err != nil {
		return nil, err
	}
	base, err := p.base(ctx)
	if err != nil {
		return nil, err
	}
	t, err := p.openTry(ctx, r, n, known, base)
	if err != nil {
		return nil, err
	}
	ids, err := p.fleet(ctx, r, t, fit, instanceTags(base))
	var answered smithy.APIError
	if err == nil || !errors.As(err, &answered) && training.RefusalOf(err) == "" {
		return ids, err // without an answer there may be instances, and whoever asks next finds them by the same template
	}
	ended, failed := p.abandon(ctx, r.Key)
	return nil, training.FailedStart(errors.Join(err, failed), ended...)
}

// fleet launches the gang. Asked again in the same try, EC2 answers with the same instances. theirs are the tags that the environment gives them.
func (p *Pool) fleet(ctx context.Context, r training.Request, t try, fit []types.InstanceTypeInfo, theirs []types.Tag) ([]string, error) {
	least := int32(min(r.MinNodes, t.nodes))
	in := &ec2.CreateFleetInput{
		Type:        types.FleetTypeInstant,
		ClientToken: &t.id,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &t.id, Version: aws.String("1")},
			Overrides:                   p.overrides(fit),
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(int32(t.nodes)), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance, Tags: append(joinTags(theirs, p.tags(r)), types.Tag{Key: aws.String(tagTry), Value: &t.id}),
		}},
	}
	if t.capacity == spec.CapacitySpot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{
			AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized, MinTargetCapacity: &least,
			SingleAvailabilityZone: aws.Bool(true), SingleInstanceType: aws.Bool(true),
		}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{
			AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice, MinTargetCapacity: &least,
			SingleAvailabilityZone: aws.Bool(true), SingleInstanceType: aws.Bool(true),
		}
	}
	out, err := p.api.CreateFleet(ctx, in)
	if err != nil {
		return nil, explain("CreateFleet", err)
	}
	var ids []string
	for _, group := range out.Instances {
		ids = append(ids, group.InstanceIds...)
	}
	slices.Sort(ids)
	if len(ids) < int(least) {
		return nil, fmt.Errorf("only %d of %s (minimum %d) were available as %s: %w",
			len(ids), instances(t.nodes), least, strings.ReplaceAll(t.capacity, "_", "-"), refusal(out.Errors))
	}
	return ids, nil
}

func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return strconv.Itoa(n) + " instances"
}

// overrides are all pairs of an instance type and a subnet.
func (p *Pool) overrides(fit []types.InstanceTypeInfo) []types.FleetLaunchTemplateOverridesRequest {
	var all []types.FleetLaunchTemplateOverridesRequest
	for _, t := range fit {
		for _, subnet := range p.opts.Spec.Subnets {
			all = append(all, types.FleetLaunchTemplateOverridesRequest{InstanceType: t.InstanceType, SubnetId: &subnet})
		}
	}
	return all
}

// await waits until every instance runs and its agent has begun to poll. One that ends before that ends the try: spot capacity may be
// gone again at once, and what a node's script finds wrong is wrong on all of them.
func (p *Pool) await(ctx context.Context, key training.Key, ids []string) ([]types.Instance, error) {
	polled := map[string]bool{}
	var known []types.Instance
	for range poll.Every(ctx, p.opts.Every) {
		var err error
		known, err = p.find(ctx, key)
		if err != nil {
			return nil, err
		}
		known = slices.DeleteFunc(known, func(i types.Instance) bool { return !slices.Contains(ids, *i.InstanceId) })
		for i, instance := range known {
			if !lives(instance) {
				return nil, p.failedStart(ctx, i, instance)
			}
			if polls, err := p.serves(ctx, key, instance); err == nil && polls {
				polled[*instance.InstanceId] = true
			}
		}
		if len(known) == len(ids) && len(polled) == len(ids) {
			return known, nil
		}
	}
	return nil, p.late(ctx, known, polled)
}

// serves reports whether an instance runs, and its agent its queue.
func (p *Pool) serves(ctx context.Context, key training.Key, instance types.Instance) (bool, error) {
	if instance.State.Name != types.InstanceStateNameRunning {
		return false, nil
	}
	return p.opts.Polls(ctx, queuePrefix(key)+*instance.InstanceId)
}

// failedStart types the end of an instance that never served: what EC2 took back is a matter of capacity, an image that is not there would be
// missing on the next instance too, which costs, and what else the node's script gave up may be that machine's or that moment's trouble.
func (p *Pool) failedStart(ctx context.Context, i int, instance types.Instance) error {
	instance = p.explained(ctx, instance)
	why := fmt.Sprintf("node %d terminated before it was ready: %s", i, p.why(ctx, instance))
	code := ""
	if instance.StateReason != nil {
		code = aws.ToString(instance.StateReason.Code)
	}
	kind := training.ErrNotStarted
	client, isClient := strings.CutPrefix(code, "Client.")
	switch {
	case code == shutItself:
		if strings.Contains(why, pullFailed) {
			kind = training.ImageRefusal(why)
		}
	case isClient:
		kind = cmp.Or(refusalOf(client), kind)
	case strings.HasPrefix(code, "Server."):
		kind = training.ErrNoCapacity
	}
	return fmt.Errorf("%s: %w", why, kind)
}

// pullFailed is how the node's script begins to say that an image could not be pulled.
const pullFailed = "cannot pull the image"

// late says which agents have not been heard of in time.
func (p *Pool) late(ctx context.Context, known []types.Instance, polled map[string]bool) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	for i, instance := range known {
		if polled[*instance.InstanceId] {
			continue
		}
		why := fmt.Sprintf("node %d: the agent of instance %s did not connect within %v: can the instance reach Temporal at %s?",
			i, *instance.InstanceId, bootLimit, p.opts.Agent.Address)
		if last := p.lastWords(context.WithoutCancel(ctx), *instance.InstanceId); last != "" {
			why += " Its last output: " + last
		}
		return fmt.Errorf("%s: %w", why, training.ErrNotStarted)
	}
	return fmt.Errorf("EC2 did not report the instances within %v of their launch: %w", bootLimit, training.ErrNotStarted)
}
