package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ec2/instancetemplate"
)

// The tags of instances.
const (
	tagPool       = instancetemplate.TagPrefix + "pool"
	tagRun        = instancetemplate.TagPrefix + "run"
	tagStep       = instancetemplate.TagPrefix + "step"
	tagGeneration = instancetemplate.TagPrefix + "generation"
	tagTry        = instancetemplate.TagPrefix + "try" // the ID of the launch template
)

const (
	// unseenLooks is how often a gang that should be there is looked for in vain before it is taken to be gone.
	unseenLooks = 3
	// failedLooks is how often in a row looking may fail before Watch gives up; what is known to be needed is retried by the SDK.
	failedLooks = 12
)

// tags are those of all that a gang has in EC2.
func (p *Pool) tags(r training.Request) []types.Tag {
	var tags []types.Tag
	for _, tag := range [][2]string{
		{"Name", fmt.Sprintf("sluice %s/%s g%d", r.Run, r.Step, r.Generation)},
		{tagPool, p.opts.Name},
		{tagRun, r.Run},
		{tagStep, r.Step},
		{tagGeneration, strconv.Itoa(r.Generation)},
		{tagOwner, ownerOf(p.opts.Agent)},
		{tagWorkflow, r.Workflow},
	} {
		if len(tag[1]) <= maxTag { // what has no tag with its workflow is not swept
			tags = append(tags, types.Tag{Key: &tag[0], Value: &tag[1]})
		}
	}
	return tags
}

func tagOf(tags []types.Tag, name string) string {
	for _, tag := range tags {
		if aws.ToString(tag.Key) == name {
			return aws.ToString(tag.Value)
		}
	}
	return ""
}

func tagFilter(name, value string) types.Filter {
	return types.Filter{Name: aws.String("tag:" + name), Values: []string{value}}
}

// find returns the instances of a gang, also those that have ended, as long as EC2 tells of them: about an hour. They are in the
// order of their IDs, which is that of their ranks.
func (p *Pool) find(ctx context.Context, key training.Key) ([]types.Instance, error) {
	return p.describe(ctx, tagFilter(tagPool, p.opts.Name), tagFilter(tagRun, key.Run), tagFilter(tagStep, key.Step),
		tagFilter(tagGeneration, strconv.Itoa(key.Generation)))
}

func (p *Pool) describe(ctx context.Context, filters ...types.Filter) ([]types.Instance, error) {
	return describe(ctx, p.api, filters...)
}

func describe(ctx context.Context, api *ec2.Client, filters ...types.Filter) ([]types.Instance, error) {
	var found []types.Instance
	pages := ec2.NewDescribeInstancesPaginator(api, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(1000)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("DescribeInstances", err)
		}
		for _, reservation := range page.Reservations {
			found = append(found, reservation.Instances...)
		}
	}
	slices.SortFunc(found, func(a, b types.Instance) int { return cmp.Compare(*a.InstanceId, *b.InstanceId) })
	return found, nil
}

// isOf reports whether an instance is one of a gang's.
func isOf(key training.Key, instance types.Instance) bool {
	return tagOf(instance.Tags, tagRun) == key.Run && tagOf(instance.Tags, tagStep) == key.Step &&
		tagOf(instance.Tags, tagGeneration) == strconv.Itoa(key.Generation)
}

// lives reports whether an instance is neither gone nor going.
func lives(instance types.Instance) bool {
	return instance.State != nil &&
		(instance.State.Name == types.InstanceStateNamePending || instance.State.Name == types.InstanceStateNameRunning)
}

func alive(instances []types.Instance) []types.Instance {
	return slices.DeleteFunc(slices.Clone(instances), func(i types.Instance) bool { return !lives(i) })
}

func idsOf(instances []types.Instance) []string {
	var ids []string
	for _, i := range instances {
		ids = append(ids, *i.InstanceId)
	}
	return ids
}

// of keeps the instances of one try.
func of(try string, instances []types.Instance) []types.Instance {
	return slices.DeleteFunc(slices.Clone(instances), func(i types.Instance) bool { return tagOf(i.Tags, tagTry) != try })
}

func capacityOf(instance types.Instance) string {
	if instance.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
		return spec.CapacitySpot
	}
	return spec.CapacityOnDemand
}

// Watch implements training.Pool.
func (p *Pool) Watch(ctx context.Context, key training.Key, _ func(training.Notice) error) (training.Loss, error) {
	unseen, failed := 0, 0
	for range poll.Every(ctx, p.opts.Every) {
		instances, err := p.find(ctx, key)
		switch {
		case ctx.Err() != nil:
			return training.Loss{}, ctx.Err()
		case err != nil:
			if failed++; failed == failedLooks {
				return training.Loss{}, err
			}
		case len(instances) == 0:
			if unseen++; unseen == unseenLooks {
				return training.Loss{Reason: "EC2 has no instances of this gang"}, nil
			}
		default:
			unseen, failed = 0, 0
			if loss := p.loss(ctx, newest(instances)); len(loss.Nodes) > 0 {
				return loss, nil
			}
		}
	}
	return training.Loss{}, ctx.Err()
}

// newest keeps the instances of the try that was last.
func newest(instances []types.Instance) []types.Instance {
	last := slices.MaxFunc(instances, func(a, b types.Instance) int {
		return aws.ToTime(a.LaunchTime).Compare(aws.ToTime(b.LaunchTime))
	})
	for _, i := range instances { // of those that are as old, one that lives tells
		if lives(i) {
			last = i
		}
	}
	return of(tagOf(last.Tags, tagTry), instances)
}

// loss says which instances are gone.
func (p *Pool) loss(ctx context.Context, instances []types.Instance) training.Loss {
	var loss training.Loss
	for i, instance := range instances {
		if lives(instance) {
			continue
		}
		if len(loss.Nodes) == 0 {
			loss.Reason = fmt.Sprintf("node %d: %s", i, p.why(ctx, p.explained(ctx, instance)))
		}
		loss.Nodes = append(loss.Nodes, i)
	}
	return loss
}

// explained looks once more at an instance that has ended, where EC2 has not said why yet.
func (p *Pool) explained(ctx context.Context, instance types.Instance) types.Instance {
	if instance.StateReason != nil && aws.ToString(instance.StateReason.Code) != "" || p.pause(ctx) != nil {
		return instance
	}
	again, err := p.describe(ctx, types.Filter{Name: aws.String("instance-id"), Values: []string{*instance.InstanceId}})
	if err != nil || len(again) == 0 {
		return instance
	}
	return again[0]
}

// shutItself is the state reason of an instance that shut down by itself, which only the node's script has it do.
const shutItself = "Client.InstanceInitiatedShutdown"

// why says in one line why an instance has ended.
func (p *Pool) why(ctx context.Context, instance types.Instance) string {
	said := fmt.Sprintf("instance %s no longer exists", *instance.InstanceId)
	if instance.StateReason == nil || aws.ToString(instance.StateReason.Code) == "" {
		return said
	}
	said += ": " + strings.TrimSpace(aws.ToString(instance.StateReason.Message))
	if aws.ToString(instance.StateReason.Code) != shutItself {
		return said
	}
	if last := p.lastWords(ctx, *instance.InstanceId); last != "" {
		return said + ": " + last
	}
	return said
}

// lastWords is what the node's script said last on the console. It is asked for people alone: without it, or the right to read it,
// all goes on.
func (p *Pool) lastWords(ctx context.Context, id string) string {
	out, err := p.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id})
	if err != nil {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return ""
	}
	const mark = "sluice-node: "
	at := strings.LastIndex(string(text), mark)
	if at < 0 {
		return ""
	}
	line, _, _ := strings.Cut(string(text[at+len(mark):]), "\n")
	return strings.TrimSpace(line)
}
