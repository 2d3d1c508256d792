package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sluiceml/sluice/training"
)

// apiError says what an answer of the API means. That something is there already, or not there, is left to the caller.
func apiError(doing string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return err
	case apierrors.IsForbidden(err):
		return forbidden(doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w: the cluster does not accept these credentials: %w", doing, training.ErrPermission, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fmt.Errorf("%s: %w: %w", doing, training.ErrInvalid, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: the cluster's API: %w", doing, err)
	}
	return fmt.Errorf("%s: reach the cluster's API: %w", doing, err)
}

// forbidden says who forbids it: the quota of the namespace, an admission controller, or else the rights of the user. The API has no other sign
// of which than the text; its own controllers go by that too.
func forbidden(doing string, err error) error {
	said := err.Error()
	switch {
	case strings.Contains(said, "exceeded quota"):
		return fmt.Errorf("%s: %w: %w", doing, training.ErrQuota, err)
	case strings.Contains(said, "violates PodSecurity"):
		return fmt.Errorf("%s: %w: %w: set the `securityContext` in `kubernetes.pod` of the pool, see docs/kubernetes.md", doing, training.ErrInvalid, err)
	case strings.Contains(said, `: User "`) && strings.Contains(said, " cannot "):
		return fmt.Errorf("%s: %w: %w: see docs/kubernetes.md for the role that workers need", doing, training.ErrPermission, err)
	}
	return fmt.Errorf("%s: %w: %w: change the pool's `kubernetes` in the environment", doing, training.ErrInvalid, err)
}

// waitError: the gang still waits for machines.
type waitError struct {
	why    string
	placed int  // pods that have a machine
	queued bool // it is in a queue, and has not been admitted
}

func (e *waitError) Error() string { return e.why + ": " + e.Unwrap().Error() }

// Unwrap tells the kind of the error.
func (e *waitError) Unwrap() error {
	if e.queued {
		return training.ErrQueued
	}
	return training.ErrNoCapacity
}
