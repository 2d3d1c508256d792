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

// refusals is what EC2's codes mean, of its answers and of instances that ended. Codes that are not here, and do not begin with one of
// invalidCodes, are trouble that may pass.
var refusals = map[string]training.Refusal{
	"InsufficientInstanceCapacity": training.ErrNoCapacity, "InsufficientCapacity": training.ErrNoCapacity,
	"UnfulfillableCapacity": training.ErrNoCapacity, "InsufficientHostCapacity": training.ErrNoCapacity,
	"InsufficientFreeAddressesInSubnet": training.ErrNoCapacity, "ReservationCapacityExceeded": training.ErrNoCapacity,

	"SpotMaxPriceTooLow": training.ErrPrice,

	// Others' instances may end, and quotas may be raised.
	"VcpuLimitExceeded": training.ErrQuota, "MaxSpotInstanceCountExceeded": training.ErrQuota, "InstanceLimitExceeded": training.ErrQuota,
	"MaxFleetCountExceeded": training.ErrQuota, "MaxSpotFleetRequestCountExceeded": training.ErrQuota, "VolumeLimitExceeded": training.ErrQuota,

	"UnauthorizedOperation": training.ErrPermission, "AuthFailure": training.ErrPermission, "OptInRequired": training.ErrPermission,
	"AuthFailure.ServiceLinkedRoleCreationNotPermitted": training.ErrPermission,
}

// invalidCodes begin those that say that the pool is not described right.
var invalidCodes = []string{"Invalid", "Unsupported", "MissingParameter", "UnknownParameter", "VPCIdNotSpecified"}

func refusalOf(code string) training.Refusal {
	if slices.ContainsFunc(invalidCodes, func(prefix string) bool { return strings.HasPrefix(code, prefix) }) {
		return training.ErrInvalid
	}
	return refusals[code]
}

// explain says what an answer of EC2's means, to the user and in its type.
func explain(call string, err error) error {
	var answered smithy.APIError
	if !errors.As(err, &answered) {
		return err
	}
	return meaning(call, answered.ErrorCode(), answered.ErrorMessage(), err)
}

func meaning(call, code, message string, err error) error {
	f := fault{fmt.Sprintf("EC2 answered %s: %s", code, strings.TrimSpace(message)), err, refusalOf(code)}
	switch {
	case f.kind == training.ErrQuota:
		f.text += ": unless other instances of the account end, have its quota raised (Service Quotas in AWS's console, Amazon EC2)"
	case f.kind == training.ErrPermission:
		f.text += ": the worker's credentials need the permission ec2:" + call + " (docs/ec2.md has the policy)"
	case strings.Contains(message, "IAM Instance Profile"):
		f.kind = training.ErrInvalid
		f.text += ": make it, or name another as `instance_profile` of the pool (docs/ec2.md)"
	case f.kind == training.ErrInvalid:
		f.text += ": look at the pool's `ec2` in the environment"
	}
	return f
}

// fault is an answer of EC2's, with what it means.
type fault struct {
	text string
	err  error            // EC2's answer
	kind training.Refusal // "": none
}

func (f fault) Error() string {
	if f.kind == "" {
		return f.text
	}
	return f.text + ": " + f.kind.Error()
}

// Unwrap makes both errors known.
func (f fault) Unwrap() []error {
	if f.kind == "" {
		return []error{f.err}
	}
	return []error{f.err, f.kind}
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
		if kind := training.RefusalOf(err); kind == training.ErrNoCapacity || kind == training.ErrPrice {
			return err
		}
		all = append(all, err)
	}
	for _, err := range all {
		if !training.RefusalOf(err).Lasts() {
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
