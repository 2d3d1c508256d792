package ec2

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// instance is what an environment says of its instances.
var instance = map[string]any{
	"ImageId":            "ami-of-the-template",
	"IamInstanceProfile": map[string]any{"Name": "trainer"},
	"BlockDeviceMappings": []any{
		map[string]any{"DeviceName": "/dev/sda1", "Ebs": map[string]any{"VolumeSize": 500, "VolumeType": "gp3", "Iops": 6000, "Throughput": 500}},
		map[string]any{"DeviceName": "/dev/sdf", "Ebs": map[string]any{"VolumeSize": 10, "Encrypted": false, "DeleteOnTermination": false}},
		map[string]any{"DeviceName": "/dev/sdg", "VirtualName": "ephemeral0"},
	},
	"TagSpecifications": []any{
		map[string]any{"ResourceType": "instance", "Tags": []any{map[string]any{"Key": "team", "Value": "ml"}, map[string]any{"Key": "Name", "Value": "trainer"}}},
		map[string]any{"ResourceType": "volume", "Tags": []any{map[string]any{"Key": "team", "Value": "ml"}}},
		map[string]any{"ResourceType": "network-interface", "Tags": []any{map[string]any{"Key": "team", "Value": "ml"}}},
	},
	"Placement":                         map[string]any{"GroupName": "gang"},
	"NetworkInterfaces":                 []any{map[string]any{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa"}, map[string]any{"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa-only"}},
	"CapacityReservationSpecification":  map[string]any{"CapacityReservationTarget": map[string]any{"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:eu-central-1:1:group/gpu"}},
	"MetadataOptions":                   map[string]any{"HttpTokens": "optional", "InstanceMetadataTags": "enabled"},
	"InstanceInitiatedShutdownBehavior": "terminate",
	"Monitoring":                        map[string]any{"Enabled": true},
}

// What the environment says of instances reaches EC2, and with it what Sluice relies on.
func TestInstance(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Spec.Instance, o.Spec.SecurityGroups = instance, []string{"sg-1"} })
	gang, err := w.Acquire(t.Context(), request(1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, w.Pool, request(1, 1, 1).Key)
	form := w.front.form("CreateLaunchTemplate")
	const data = "LaunchTemplateData."
	for name, want := range map[string]string{
		"ImageId":                                      "ami-12c6146b", // of the pool
		"IamInstanceProfile.Name":                      "trainer",
		"BlockDeviceMapping.1.DeviceName":              "/dev/sda1",
		"BlockDeviceMapping.1.Ebs.VolumeSize":          "500",
		"BlockDeviceMapping.1.Ebs.VolumeType":          "gp3",
		"BlockDeviceMapping.1.Ebs.Iops":                "6000",
		"BlockDeviceMapping.1.Ebs.Throughput":          "500",
		"BlockDeviceMapping.1.Ebs.Encrypted":           "true",
		"BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
		"BlockDeviceMapping.2.Ebs.Encrypted":           "false",
		"BlockDeviceMapping.2.Ebs.DeleteOnTermination": "false",
		"BlockDeviceMapping.3.VirtualName":             "ephemeral0",
		"BlockDeviceMapping.3.Ebs.Encrypted":           "",
		"Placement.GroupName":                          "gang",
		"NetworkInterface.1.InterfaceType":             "efa",
		"NetworkInterface.1.SecurityGroupId.1":         "sg-1",
		"NetworkInterface.2.InterfaceType":             "efa-only",
		"NetworkInterface.2.SecurityGroupId.1":         "sg-1",
		"SecurityGroupId.1":                            "", // EC2 refuses both
		"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn": "arn:aws:resource-groups:eu-central-1:1:group/gpu",
		"MetadataOptions.HttpTokens":           "required",
		"MetadataOptions.InstanceMetadataTags": "enabled",
		"Monitoring.Enabled":                   "true",
		"TagSpecification.1.ResourceType":      "volume",
		"TagSpecification.2.ResourceType":      "network-interface",
	} {
		if got := form[data+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if diff := cmp.Diff([]string{"Name", "sluice:generation", "sluice:owner", "sluice:pool", "sluice:run", "sluice:step", "sluice:workflow", "team"}, tagKeys(form, data+"TagSpecification.1.Tag.")); diff != "" {
		t.Errorf("tags of volumes (-want +got):\n%s", diff)
	}
	id, _, _ := strings.Cut(gang.Nodes[0].Name, " ")
	instances, err := w.find(t.Context(), request(1, 1, 1).Key)
	if err != nil || len(instances) != 1 || *instances[0].InstanceId != id {
		t.Fatalf("%d instances, %v", len(instances), err)
	}
	for name, want := range map[string]string{"team": "ml", "Name": "trainer", tagRun: "r1", tagStep: "fit"} {
		if got := tagOf(instances[0].Tags, name); got != want {
			t.Errorf("the instance's tag %s is %q, want %q", name, got, want)
		}
	}
}

// tagKeys are the keys of the tags in a form, sorted.
func tagKeys(form map[string]string, prefix string) []string {
	var keys []string
	for name, value := range form {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, ".Key") {
			keys = append(keys, value)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestDefaults(t *testing.T) {
	p := &Pool{}
	data := p.complete(types.RequestLaunchTemplateData{}, training.Request{}, "")
	want := []types.LaunchTemplateBlockDeviceMappingRequest{{
		DeviceName: aws.String("/dev/sda1"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)},
	}}
	if diff := cmp.Diff(want, data.BlockDeviceMappings, cmp.AllowUnexported(types.LaunchTemplateBlockDeviceMappingRequest{}, types.LaunchTemplateEbsBlockDeviceRequest{})); diff != "" {
		t.Errorf("disks of the default image (-want +got):\n%s", diff)
	}
	if *data.ImageId != defaultImage() || *data.IamInstanceProfile.Name != "sluice-node" {
		t.Errorf("the image is %s and the profile %s", *data.ImageId, *data.IamInstanceProfile.Name)
	}
	p.opts.Spec.Image = "/acme/image"
	if data := p.complete(types.RequestLaunchTemplateData{}, training.Request{}, ""); *data.ImageId != "resolve:ssm:/acme/image" || len(data.BlockDeviceMappings) != 0 {
		t.Errorf("the image is %s with %d disks, of which Sluice cannot know the names", *data.ImageId, len(data.BlockDeviceMappings))
	}
}

// A launch template of the account is as good as one in the environment.
func TestLaunchTemplate(t *testing.T) {
	w := newWorld(t, nil)
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("acme-" + t.Name()), LaunchTemplateData: &types.RequestLaunchTemplateData{
		KeyName: aws.String("ops"), Placement: &types.LaunchTemplatePlacementRequest{GroupName: aws.String("gang")},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(300)},
		}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{
			ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("ml")}},
		}},
	}}
	out, err := w.api.CreateLaunchTemplate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	change := &types.RequestLaunchTemplateData{UserData: aws.String("IyEvYmluL3No")}
	if _, err := w.api.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: out.LaunchTemplate.LaunchTemplateId, LaunchTemplateData: change,
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		use  spec.LaunchTemplate
		says string
	}{
		{"by name", spec.LaunchTemplate{Name: *in.LaunchTemplateName, Version: 1}, ""},
		{"by ID", spec.LaunchTemplate{ID: *out.LaunchTemplate.LaunchTemplateId, Version: 1}, ""},
		{"with user data", spec.LaunchTemplate{Name: *in.LaunchTemplateName, Version: 2}, "version 2 of acme-TestLaunchTemplate: UserData cannot be set"},
		{"no such version", spec.LaunchTemplate{Name: *in.LaunchTemplateName, Version: 3}, "InvalidLaunchTemplateId.VersionNotFound"},
		{"no such template", spec.LaunchTemplate{Name: "other", Version: 1}, "InvalidLaunchTemplateName.NotFoundException"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.opts.Spec.LaunchTemplate = &test.use
			gang, err := w.Acquire(t.Context(), request(1, 1, 1))
			if test.says != "" {
				if !errors.Is(err, training.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("Acquire: %v, want ErrInvalid that says %s", err, test.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer release(t, w.Pool, request(1, 1, 1).Key)
			form, got := w.front.form("CreateLaunchTemplate"), map[string]string{}
			for _, name := range []string{"KeyName", "Placement.GroupName", "BlockDeviceMapping.1.Ebs.VolumeSize", "BlockDeviceMapping.1.Ebs.Encrypted"} {
				got[name] = form["LaunchTemplateData."+name]
			}
			if want := map[string]string{
				"KeyName": "ops", "Placement.GroupName": "gang", "BlockDeviceMapping.1.Ebs.VolumeSize": "300", "BlockDeviceMapping.1.Ebs.Encrypted": "true",
			}; !maps.Equal(got, want) {
				t.Errorf("launched from %v, want %v", got, want)
			}
			instances, err := w.find(t.Context(), request(1, 1, 1).Key)
			if err != nil || len(gang.Nodes) != 1 || tagOf(newest(instances)[0].Tags, "team") != "ml" {
				t.Errorf("%v, and of %d instances none has the template's tag", err, len(instances))
			}
		})
	}
}
