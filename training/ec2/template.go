package ec2

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ec2/instancetemplate"
)

const (
	// defaultProfile is the instance profile of pools that name none.
	defaultProfile = "sluice-node"
	// defaultRoot is the root device of the default image.
	defaultRoot = "/dev/sda1"
)

// base is what the environment says of the pool's instances.
func (p *Pool) base(ctx context.Context) (types.RequestLaunchTemplateData, error) {
	own := p.opts.Spec.LaunchTemplate
	if own == nil {
		data, err := instancetemplate.Parse(p.opts.Spec.Instance)
		if err != nil {
			err = fmt.Errorf("`ec2.instance`: %w: %w", err, training.ErrInvalid)
		}
		return data, err
	}
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{strconv.Itoa(own.Version)}}
	if own.ID != "" {
		in.LaunchTemplateId = &own.ID
	} else {
		in.LaunchTemplateName = &own.Name
	}
	var data types.RequestLaunchTemplateData
	out, err := p.api.DescribeLaunchTemplateVersions(ctx, in)
	switch {
	case err != nil:
		return data, explain("DescribeLaunchTemplateVersions", err)
	case len(out.LaunchTemplateVersions) == 0:
		return data, fmt.Errorf("`ec2.launch_template`: EC2 has no version %d of %s: %w", own.Version, cmp.Or(own.Name, own.ID), training.ErrInvalid)
	}
	raw, err := json.Marshal(out.LaunchTemplateVersions[0].LaunchTemplateData) // has the names of the data that it was made of
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	if err == nil {
		err = instancetemplate.Check(data)
	}
	if err != nil {
		return data, fmt.Errorf("`ec2.launch_template`: version %d of %s: %w: %w", own.Version, cmp.Or(own.Name, own.ID), err, training.ErrInvalid)
	}
	return data, nil
}

// complete makes of what the environment says what the instances of a gang are launched from. What Sluice relies on replaces what is there:
// the user data, that an instance which shuts down is gone, and sessions for its metadata. Containers share the host's network, so one hop
// reaches those. Tags of instances are left to the fleet.
func (p *Pool) complete(data types.RequestLaunchTemplateData, r training.Request, userData string) *types.RequestLaunchTemplateData {
	spec := p.opts.Spec
	data.UserData = &userData
	data.InstanceInitiatedShutdownBehavior = types.ShutdownBehaviorTerminate
	if data.MetadataOptions == nil {
		data.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{}
	}
	data.MetadataOptions.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointStateEnabled
	data.MetadataOptions.HttpTokens = types.LaunchTemplateHttpTokensStateRequired
	data.MetadataOptions.HttpPutResponseHopLimit = aws.Int32(cmp.Or(aws.ToInt32(data.MetadataOptions.HttpPutResponseHopLimit), 1))

	image := spec.Image
	if strings.HasPrefix(image, "/") {
		image = "resolve:ssm:" + image
	}
	data.ImageId = aws.String(cmp.Or(image, aws.ToString(data.ImageId), defaultImage()))
	if spec.InstanceProfile != "" || data.IamInstanceProfile == nil {
		name := cmp.Or(spec.InstanceProfile, defaultProfile)
		data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &name}
	}
	secure(&data, spec.SecurityGroups)
	setDisks(&data)
	tagged, own := false, p.tags(r)
	data.TagSpecifications = slices.DeleteFunc(slices.Clone(data.TagSpecifications), isOfInstances)
	for i := range data.TagSpecifications {
		if t := &data.TagSpecifications[i]; t.ResourceType == types.ResourceTypeVolume {
			tagged, t.Tags = true, joinTags(t.Tags, own)
		}
	}
	if !tagged {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: types.ResourceTypeVolume, Tags: own})
	}
	return &data
}

// secure puts instances into security groups. Where a template describes network interfaces, EC2 has them there.
func secure(data *types.RequestLaunchTemplateData, groups []string) {
	if len(groups) == 0 {
		return
	}
	if len(data.NetworkInterfaces) == 0 {
		data.SecurityGroupIds, data.SecurityGroups = groups, nil
		return
	}
	for i := range data.NetworkInterfaces {
		data.NetworkInterfaces[i].Groups = groups
	}
}

// setDisks encrypts the disks that a template describes, and has them go with their instance, unless it says otherwise. The root disk is
// described, too, where its name is known.
func setDisks(data *types.RequestLaunchTemplateData) {
	isRoot := func(m types.LaunchTemplateBlockDeviceMappingRequest) bool {
		return aws.ToString(m.DeviceName) == defaultRoot
	}
	if *data.ImageId == defaultImage() && !slices.ContainsFunc(data.BlockDeviceMappings, isRoot) {
		data.BlockDeviceMappings = append(data.BlockDeviceMappings, types.LaunchTemplateBlockDeviceMappingRequest{
			DeviceName: aws.String(defaultRoot), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{},
		})
	}
	for _, m := range data.BlockDeviceMappings {
		if m.Ebs == nil {
			continue
		}
		if m.Ebs.Encrypted == nil {
			m.Ebs.Encrypted = aws.Bool(true)
		}
		if m.Ebs.DeleteOnTermination == nil {
			m.Ebs.DeleteOnTermination = aws.Bool(true)
		}
	}
}

func isOfInstances(t types.LaunchTemplateTagSpecificationRequest) bool {
	return t.ResourceType == types.ResourceTypeInstance
}

// instanceTags are the tags that a template gives instances.
func instanceTags(data types.RequestLaunchTemplateData) []types.Tag {
	var tags []types.Tag
	for _, t := range data.TagSpecifications {
		if isOfInstances(t) {
			tags = append(tags, t.Tags...)
		}
	}
	return tags
}

// joinTags are the tags of a template, and Sluice's, of which the template may replace the name.
func joinTags(theirs, own []types.Tag) []types.Tag {
	replaced := func(t types.Tag) bool { return tagOf(theirs, *t.Key) != "" }
	return slices.Concat(theirs, slices.DeleteFunc(slices.Clone(own), replaced))
}

// defaultImage is AWS's Deep Learning Base image of the agent's architecture, in its newest version: Ubuntu with the NVIDIA driver and Docker.
func defaultImage() string {
	return "resolve:ssm:/aws/service/deeplearning/ami/" + string(architecture()) +
		"/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
}

// architecture is that of the agent, which is built with this program.
func architecture() types.ArchitectureType {
	if runtime.GOARCH == "arm64" {
		return types.ArchitectureTypeArm64
	}
	return types.ArchitectureTypeX8664
}
