package ec2

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/training"
)

// ended describes the instances of a gang that have ended, by try, with the times at which they did. ends are those that are known already.
func (p *Pool) ended(ctx context.Context, key training.Key, instances []types.Instance, ends map[string]time.Time) []training.Gang {
	var gangs []training.Gang
	var seen []string // tries
	for _, first := range instances {
		try := tagOf(first.Tags, tagTry)
		if slices.Contains(seen, try) {
			continue
		}
		seen = append(seen, try)
		same := of(try, instances)
		gang := p.gang(ctx, key, same)
		for i, instance := range same {
			if end, known := ends[*instance.InstanceId]; known {
				gang.Nodes[i].EndedAt = end
			} else {
				gang.Nodes[i].EndedAt = transitioned(instance)
			}
		}
		gangs = append(gangs, gang)
	}
	return gangs
}

func zoneOf(instance types.Instance) string {
	if instance.Placement == nil {
		return ""
	}
	return aws.ToString(instance.Placement.AvailabilityZone)
}

// transitionTime is the time in the reason that EC2 gives for the last change of an instance's state, as in "User initiated (2026-03-14
// 09:26:53 GMT)".
var transitionTime = regexp.MustCompile(`\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)`)

// transitioned is when an instance that has ended did; zero where EC2 does not say.
func transitioned(instance types.Instance) time.Time {
	said := transitionTime.FindStringSubmatch(aws.ToString(instance.StateTransitionReason))
	if said == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.DateTime, said[1])
	if err != nil {
		return time.Time{}
	}
	return at
}
