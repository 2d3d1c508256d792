// Package instancetemplate lets an environment say of a pool's instances what only their account knows: disks, tags, placement groups,
// network interfaces, reservations and so on. It is said in EC2's own words, as the data of a launch template.
package instancetemplate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/internal/template"
)

// TagPrefix begins the keys of the tags by which Sluice finds its instances.
const TagPrefix = "sluice:"

// Parse reads a template, which may be nil. The error says what is wrong of which field.
func Parse(document map[string]any) (types.RequestLaunchTemplateData, error) {
	var t types.RequestLaunchTemplateData
	if err := template.Read(document, &t); err != nil {
		return t, err
	}
	return t, Check(t)
}

// Check refuses a template that sets what Sluice sets, where its author would miss it.
func Check(t types.RequestLaunchTemplateData) error {
	for _, field := range []struct {
		name string
		set  bool
		why  string
	}{
		{"UserData", t.UserData != nil, "Sluice starts its agent by it"},
		{"InstanceType", t.InstanceType != "", "use `types` of the pool"},
		{"InstanceRequirements", t.InstanceRequirements != nil, "use `types` of the pool"},
		{"InstanceMarketOptions", t.InstanceMarketOptions != nil, "use `capacity` of the pool"},
		{
			"InstanceInitiatedShutdownBehavior", t.InstanceInitiatedShutdownBehavior == types.ShutdownBehaviorStop,
			"nodes terminate when they shut down, so that none is left behind",
		},
	} {
		if field.set {
			return fmt.Errorf("%s cannot be set: %s", field.name, field.why)
		}
	}
	for _, i := range t.NetworkInterfaces {
		if i.SubnetId != nil {
			return errors.New("NetworkInterfaces: SubnetId cannot be set: use `subnets` of the pool")
		}
	}
	for _, tags := range t.TagSpecifications {
		for _, tag := range tags.Tags {
			if key := aws.ToString(tag.Key); strings.HasPrefix(key, TagPrefix) {
				return fmt.Errorf("TagSpecifications: the tag %s cannot be set: Sluice finds its instances by such tags", key)
			}
		}
	}
	return nil
}
