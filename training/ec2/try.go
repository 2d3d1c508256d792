package ec2

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ec2/instancetemplate"
)

// The tags of a launch template that say what the try is for: how many instances, and whether spot.
const (
	tagNodes    = instancetemplate.TagPrefix + "nodes"
	tagCapacity = instancetemplate.TagPrefix + "capacity"
)

// freshFor is how long a try may go on: what its instances fetch must last until they have it.
const freshFor = lendLife / 2

// try is one attempt to start a gang. It is a launch template, and begins when that is made.
type try struct {
	id       string
	nodes    int
	capacity string
}

// templateName is the name of the template of a gang's current try. There is one at a time, which is what makes it a lock.
func (p *Pool) templateName(key training.Key) string {
	return fmt.Sprintf("sluice-%x", sha256.Sum256([]byte(p.opts.Name+" "+key.String())))[:40]
}

// openTry begins a try for n instances, or joins the one that another worker has begun. known are the gang's instances of earlier tries.
func (p *Pool) openTry(ctx context.Context, r training.Request, n int, known []types.Instance, base types.RequestLaunchTemplateData) (try, error) {
	for range 3 {
		t, err := p.joinTry(ctx, r.Key, known)
		if t.id != "" || err != nil {
			return t, err
		}
		t, err = p.beginTry(ctx, r, n, base)
		if !isCode(err, "InvalidLaunchTemplateName.AlreadyExistsException") {
			return t, err
		}
	}
	return try{}, errors.New("other workers keep starting and stopping this gang")
}

// joinTry returns the try that is going on; none if there is none. One that is over is removed.
func (p *Pool) joinTry(ctx context.Context, key training.Key, known []types.Instance) (try, error) {
	t, err := p.template(ctx, key)
	if t == nil || err != nil {
		return try{}, err
	}
	over := len(of(*t.LaunchTemplateId, known)) > 0 // which all have ended, since nobody tries when any lives
	if !over && time.Since(aws.ToTime(t.CreateTime)) < freshFor {
		if n, err := strconv.Atoi(tagOf(t.Tags, tagNodes)); err == nil {
			return try{id: *t.LaunchTemplateId, nodes: n, capacity: tagOf(t.Tags, tagCapacity)}, nil
		}
	}
	_, err = p.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId})
	if err != nil && !isNoTemplate(err) {
		return try{}, explain("DeleteLaunchTemplate", err)
	}
	return try{}, nil
}

// beginTry makes what the instances start from: their configuration in the store, and the template.
func (p *Pool) beginTry(ctx context.Context, r training.Request, n int, base types.RequestLaunchTemplateData) (try, error) {
	if err := p.opts.Depot.AddPlace(ctx, placePrefix+p.opts.Spec.Region); err != nil {
		return try{}, err
	}
	var err error
	start := node{queue: queuePrefix(r.Key), image: r.Image, shm: r.Resources.SHM}
	if start.agent, err = p.opts.Depot.Agent(ctx, lendLife); err != nil {
		return try{}, err
	}
	if start.config, err = p.configure(ctx, r, uuid.NewString()); err != nil {
		return try{}, err
	}
	data, err := start.userData()
	if err != nil {
		return try{}, err
	}
	out, err := p.api.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(p.templateName(r.Key)),
		LaunchTemplateData: p.complete(base, r, data),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: append(p.tags(r),
			types.Tag{Key: aws.String(tagNodes), Value: aws.String(strconv.Itoa(n))},
			types.Tag{Key: aws.String(tagCapacity), Value: &r.Capacity},
		)}},
	})
	if err != nil {
		return try{}, explain("CreateLaunchTemplate", err)
	}
	return try{id: *out.LaunchTemplate.LaunchTemplateId, nodes: n, capacity: r.Capacity}, nil
}

// template returns the template of a gang's current try; nil if there is none.
func (p *Pool) template(ctx context.Context, key training.Key) (*types.LaunchTemplate, error) {
	out, err := p.api.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{p.templateName(key)}})
	switch {
	case isNoTemplate(err) || err == nil && len(out.LaunchTemplates) == 0:
		return nil, nil
	case err != nil:
		return nil, explain("DescribeLaunchTemplates", err)
	}
	return &out.LaunchTemplates[0], nil
}

// dropTemplate ends a gang's current try and reports whether there was one.
func (p *Pool) dropTemplate(ctx context.Context, key training.Key) (bool, error) {
	_, err := p.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(p.templateName(key))})
	if isNoTemplate(err) {
		return false, nil
	}
	if err != nil {
		return false, explain("DeleteLaunchTemplate", err)
	}
	return true, nil
}

func isNoTemplate(err error) bool {
	return isCode(err, "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.NotFoundException")
}

// isCode reports whether EC2 answered with one of the codes.
func isCode(err error, codes ...string) bool {
	var answered smithy.APIError
	return errors.As(err, &answered) && slices.Contains(codes, answered.ErrorCode())
}
