package ec2

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/sluiceml/sluice/training"
)

// Each code has one kind, which the error says, with what to do about it.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		code, message string
		want          training.Refusal
		says          string
	}{
		{"InsufficientInstanceCapacity", "", training.ErrNoCapacity, "no capacity now"},
		{"InsufficientFreeAddressesInSubnet", "", training.ErrNoCapacity, "no capacity now"},
		{"SpotMaxPriceTooLow", "", training.ErrPrice, "too expensive now"},
		{"VcpuLimitExceeded", "", training.ErrQuota, "Service Quotas"},
		{"MaxSpotInstanceCountExceeded", "", training.ErrQuota, "quota exceeded"},
		{"UnauthorizedOperation", "", training.ErrPermission, "ec2:CreateFleet"},
		{"AuthFailure", "", training.ErrPermission, "permission missing"},
		{"InvalidAMIID.NotFound", "", training.ErrInvalid, "look at the pool's `ec2`"},
		{"InvalidParameterValue", "Invalid IAM Instance Profile name", training.ErrInvalid, "`instance_profile`"},
		{"UnsupportedOperation", "", training.ErrInvalid, "invalid"},
		{"RequestLimitExceeded", "", "", "EC2 answered RequestLimitExceeded"},
		{"InternalError", "", "", "EC2 answered InternalError"},
	} {
		err := explain("CreateFleet", &smithy.GenericAPIError{Code: tt.code, Message: tt.message})
		if got := training.RefusalOf(err); got != tt.want || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v is %q, want %q that says %s", tt.code, err, got, tt.want, tt.says)
		}
		if answered := smithy.APIError(nil); !errors.As(err, &answered) {
			t.Errorf("%s: %v has lost EC2's answer", tt.code, err)
		}
	}
	network := errors.New("dial tcp: connection refused")
	if err := explain("CreateFleet", network); training.RefusalOf(err) != "" || !errors.Is(err, network) {
		t.Errorf("without an answer: %v is %q", err, training.RefusalOf(err))
	}
}

// An instance that ended before it served has a kind by why it did.
func TestFailedStart(t *testing.T) {
	w := newWorld(t, nil)
	for code, want := range map[string]training.Refusal{
		"Server.SpotInstanceTermination": training.ErrNoCapacity, "Server.InsufficientInstanceCapacity": training.ErrNoCapacity,
		"Client.VolumeLimitExceeded": training.ErrQuota, "Client.InvalidSnapshot.NotFound": training.ErrInvalid,
		"Client.InternalError": training.ErrNotStarted, shutItself: training.ErrNotStarted, "": training.ErrNotStarted,
	} {
		ended := types.Instance{
			InstanceId: aws.String("i-0"), State: &types.InstanceState{Name: types.InstanceStateNameTerminated},
			StateReason: &types.StateReason{Code: &code, Message: aws.String("it ended")},
		}
		if err := w.failedStart(t.Context(), 0, ended); training.RefusalOf(err) != want {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
	}
}
