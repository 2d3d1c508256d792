package ec2

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/ec2/instancetemplate"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// tagOwner says whose instances they are, and tagWorkflow which workflow releases them.
	tagOwner    = instancetemplate.TagPrefix + "owner"
	tagWorkflow = instancetemplate.TagPrefix + "workflow"
	// maxTag is how long EC2 lets the value of a tag be.
	maxTag = 256
	// placePrefix begins the names of the regions in which gangs were started, among the depot's places.
	placePrefix = "ec2/"
)

// ownerOf names a namespace of a Temporal server with a store: who shares both knows all workflows that may hold instances with the tag.
func ownerOf(c protocol.AgentConfig) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(c.Address+" "+c.Namespace+" "+c.Store)))[:32]
}

// Sweeper ends what gangs have left in EC2 and in the store, whose workers died before they could release them and whose agents cannot end
// themselves: because their machine never got that far, say. Workers may sweep side by side.
type Sweeper struct {
	// Depot is where the pools of this store hand things out.
	Depot *delivery.Depot
	// Agent is what agents are told: only instances of its Temporal, namespace and store are swept.
	Agent protocol.AgentConfig
	// Open reports whether a workflow is open. What belongs to one is its own business.
	Open func(ctx context.Context, workflow string) (bool, error)
	// Grace is how long what belongs to a workflow that is not open is left alone; 0 for as long as a gang may take to start.
	Grace time.Duration
}

// Sweep looks once, in all regions in which gangs of this store were ever started. It returns the IDs of what it has ended.
func (s *Sweeper) Sweep(ctx context.Context) ([]string, error) {
	regions, err := s.Depot.Places(ctx, placePrefix)
	if err != nil || len(regions) == 0 {
		return nil, err
	}
	before := time.Now().Add(-cmp.Or(s.Grace, bootLimit))
	var ended []string
	errs := []error{s.Depot.WithdrawOld(ctx, time.Now().Add(-bootLimit))} // whose addresses are no longer valid, whatever became of the gang
	open := map[string]bool{}
	for _, region := range regions {
		ids, err := s.sweepRegion(ctx, region, func(tags []types.Tag, began *time.Time) (bool, error) {
			workflow := tagOf(tags, tagWorkflow)
			if workflow == "" || !aws.ToTime(began).Before(before) {
				return false, nil
			}
			is, known := open[workflow]
			if !known {
				var err error
				if is, err = s.Open(ctx, workflow); err != nil {
					return false, err
				}
				open[workflow] = is
			}
			return !is, nil
		})
		ended = append(ended, ids...)
		if err != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", region, err))
		}
	}
	return ended, errors.Join(errs...)
}

// sweepRegion ends what is orphaned in a region: templates first, without which nobody launches anything more.
func (s *Sweeper) sweepRegion(ctx context.Context, region string, orphaned func([]types.Tag, *time.Time) (bool, error)) (ended []string, err error) {
	cfg, err := awsConfig(ctx, region)
	if err != nil {
		return nil, err
	}
	api, owned := ec2.NewFromConfig(cfg), tagFilter(tagOwner, ownerOf(s.Agent))
	templates := ec2.NewDescribeLaunchTemplatesPaginator(api, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{owned}})
	for templates.HasMorePages() {
		page, err := templates.NextPage(ctx)
		if err != nil {
			return ended, explain("DescribeLaunchTemplates", err)
		}
		for _, t := range page.LaunchTemplates {
			if yes, err := orphaned(t.Tags, t.CreateTime); err != nil {
				return ended, err
			} else if !yes {
				continue
			}
			if _, err := api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil && !isNoTemplate(err) {
				return ended, explain("DeleteLaunchTemplate", err)
			}
			ended = append(ended, *t.LaunchTemplateId)
		}
	}
	instances, err := describe(ctx, api, owned)
	if err != nil {
		return ended, err
	}
	var ids []string
	for _, i := range alive(instances) {
		yes, err := orphaned(i.Tags, i.LaunchTime)
		if err != nil {
			return ended, err
		}
		if yes {
			ids = append(ids, *i.InstanceId)
		}
	}
	if len(ids) == 0 {
		return ended, nil
	}
	if _, err := api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		return ended, explain("TerminateInstances", err)
	}
	return append(ended, ids...), nil
}
