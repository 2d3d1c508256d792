package instancetemplate

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":              {"", ""},
		"a disk":               {"BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 500, VolumeType: gp3, Iops: 6000, Throughput: 500}}]", ""},
		"EFA":                  {"NetworkInterfaces: [{DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}]", ""},
		"a placement group":    {"Placement: {GroupName: gang}", ""},
		"a reservation":        {"CapacityReservationSpecification: {CapacityReservationTarget: {CapacityReservationId: cr-1}}", ""},
		"an unknown field":     {"BlockDeviceMapping: []", `unknown field "BlockDeviceMapping"`},
		"an unknown field in":  {"BlockDeviceMappings: [{Ebs: {Size: 500}}]", `unknown field "BlockDeviceMappings[0].Ebs.Size"`},
		"another case":         {"placement: {GroupName: gang}", `unknown field "placement"`},
		"a wrong type":         {"BlockDeviceMappings: [{Ebs: {VolumeSize: large}}]", "VolumeSize"},
		"user data":            {"UserData: IyEvYmluL3No", "UserData cannot be set"},
		"a type":               {"InstanceType: g5.xlarge", "`types`"},
		"requirements":         {"InstanceRequirements: {VCpuCount: {Min: 8}}", "`types`"},
		"a market":             {"InstanceMarketOptions: {MarketType: spot}", "`capacity`"},
		"stopping":             {"InstanceInitiatedShutdownBehavior: stop", "left behind"},
		"terminating":          {"InstanceInitiatedShutdownBehavior: terminate", ""},
		"a subnet":             {"NetworkInterfaces: [{SubnetId: subnet-a}]", "`subnets`"},
		"a tag":                {"TagSpecifications: [{ResourceType: instance, Tags: [{Key: team, Value: ml}]}]", ""},
		"a tag of Sluice's":    {"TagSpecifications: [{ResourceType: volume, Tags: [{Key: 'sluice:run', Value: r1}]}]", "sluice:run"},
		"something around it":  {"LaunchTemplateData: {KeyName: ops}", `unknown field "LaunchTemplateData"`},
		"nothing of the fleet": {"SpotOptions: {}", `unknown field "SpotOptions"`},
	} {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(tt.text), &document); err != nil {
			t.Fatal(err)
		}
		_, err := Parse(document)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
