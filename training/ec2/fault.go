package ec2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/sluiceml/sluice/training"
)

// What EC2's codes mean. Codes that are not here are trouble that may pass.
var (
	// capacityCodes: there are no such machines just now.
	capacityCodes = []string{
		"InsufficientInstanceCapacity", "InsufficientCapacity", "UnfulfillableCapacity", "InsufficientHostCapacity",
		"InsufficientFreeAddressesInSubnet", "ReservationCapacityExceeded", "SpotMaxPriceTooLow",
	}
	// quotaCodes: the account may not have so many at once. Others' instances may end, and quotas may be raised.
	quotaCodes = []string{
		"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded", "MaxFleetCountExceeded",
		"MaxSpotFleetRequestCountExceeded",
	}
	// permissionCodes: these credentials may not.
	permissionCodes = []string{"UnauthorizedOperation", "AuthFailure", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "OptInRequired"}
	// specCodes begin those that say that the pool is not described right.
	specCodes = []string{"Invalid", "Unsupported", "MissingParameter", "UnknownParameter", "VPCIdNotSpecified"}
)

// explain says what an answer of EC2's means, to the user and in its type.
func explain(call string, err error) error {
	var answered smithy.APIError
	if !errors.As(err, &answered) {
		return err
	}
	return meaning(call, answered.ErrorCode(), answered.ErrorMessage(), err)
}

func meaning(call, code, message string, err error) error {
	text := fmt.Sprintf("EC2 answered %s: %s", code, strings.TrimSpace(message))
	switch {
	case slices.Contains(capacityCodes, code):
		return fault{text, err, training.ErrNoCapacity}
	case slices.Contains(quotaCodes, code):
		return fault{text + ": unless other instances of the account end, have its quota raised (Service Quotas in AWS's console, Amazon EC2)", err, training.ErrMayPass}
	case slices.Contains(permissionCodes, code):
		return fault{text + ": the worker's credentials need the permission ec2:" + call + " (docs/ec2.md has the policy)", err, training.ErrRefused}
	case strings.Contains(message, "IAM Instance Profile"):
		return fault{text + ": make it, or name another as `instance_profile` of the pool (docs/ec2.md)", err, training.ErrRefused}
	case slices.ContainsFunc(specCodes, func(prefix string) bool { return strings.HasPrefix(code, prefix) }):
		return fault{text + ": look at the pool's `ec2` in the environment", err, training.ErrRefused}
	}
	return fault{text, err, nil}
}

// fault is an answer of EC2's, with what it means.
type fault struct {
	text string
	err  error // EC2's answer
	kind error // one of package training; may be nil
}

func (f fault) Error() string {
	if f.kind == nil {
		return f.text
	}
	return f.text + ": " + f.kind.Error()
}

// Unwrap makes both errors known.
func (f fault) Unwrap() []error {
	var all []error
	for _, err := range []error{f.err, f.kind} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// refusal is why a fleet launched nothing. Of several reasons the one counts that may pass soonest: where one type lacks capacity and
// another is not offered, waiting helps.
func refusal(reasons []types.CreateFleetError) error {
	if len(reasons) == 0 {
		return fmt.Errorf("EC2 gave no reason: %w", training.ErrNoCapacity)
	}
	var all []error
	for _, r := range reasons {
		code := aws.ToString(r.ErrorCode)
		err := meaning("RunInstances", code, place(r)+aws.ToString(r.ErrorMessage), &smithy.GenericAPIError{Code: code, Message: aws.ToString(r.ErrorMessage)})
		if errors.Is(err, training.ErrNoCapacity) {
			return err
		}
		all = append(all, err)
	}
	for _, err := range all {
		if !errors.Is(err, training.ErrRefused) {
			return err
		}
	}
	return all[0]
}

// place says for which type and subnet an error is.
func place(r types.CreateFleetError) string {
	if r.LaunchTemplateAndOverrides == nil || r.LaunchTemplateAndOverrides.Overrides == nil {
		return ""
	}
	o := r.LaunchTemplateAndOverrides.Overrides
	return strings.TrimSpace(fmt.Sprintf("%s %s", o.InstanceType, aws.ToString(o.SubnetId))) + ": "
}
