package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
)

// EnsureSearchAttributes creates the search attributes that a cluster's namespace lacks, and waits until the cluster knows them: runs
// cannot be started without them. The embedded server creates them with its namespace.
func (c *Connection) EnsureSearchAttributes(ctx context.Context) error {
	operator := c.Client.OperatorService()
	known, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: c.Info.Namespace})
	if err != nil {
		return c.attributesError(embedded.SearchAttributes(), err)
	}
	missing := embedded.SearchAttributes()
	for name, want := range embedded.SearchAttributes() {
		got, there := known.GetCustomAttributes()[name]
		if !there {
			continue
		}
		if got != want {
			return fault.Errorf(fault.Invalid,
				"the namespace %s has a search attribute %s of type %s, but Sluice needs it to be %s", c.Info.Namespace, name, got, want)
		}
		delete(missing, name)
	}
	if len(missing) == 0 {
		return c.awaitSearchAttributes(ctx)
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: c.Info.Namespace, SearchAttributes: missing,
	})
	if err == nil || errors.As(err, new(*serviceerror.AlreadyExists)) { // another worker was faster
		return c.awaitSearchAttributes(ctx)
	}
	return c.attributesError(missing, err)
}

// awaitSearchAttributes waits until the frontend accepts queries by the search attributes. It reloads namespaces every 10 s.
func (c *Connection) awaitSearchAttributes(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("they are not available after %v", Timeout))
	defer cancel()
	var known []string
	for _, name := range slices.Sorted(maps.Keys(embedded.SearchAttributes())) {
		known = append(known, name+" IS NOT NULL")
	}
	var unknown *serviceerror.InvalidArgument
	for range poll.Every(ctx, 200*time.Millisecond) {
		_, err := c.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: c.Info.Namespace, Query: strings.Join(known, " AND "),
		})
		if !errors.As(err, &unknown) { // other errors, such as a missing permission, show up later
			return nil
		}
	}
	return fmt.Errorf("wait for the search attributes of namespace %s: %w: %w", c.Info.Namespace, context.Cause(ctx), unknown)
}

// attributesError says what an administrator has to do.
func (c *Connection) attributesError(missing map[string]enums.IndexedValueType, err error) error {
	if IsAway(err) {
		return fmt.Errorf("search attributes of namespace %s of %s: %w", c.Info.Namespace, c.Info.TemporalAddress, err)
	}
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		flags = append(flags, fmt.Sprintf("--name %s --type %s", name, missing[name]))
	}
	return fault.New(fault.Invalid, fmt.Sprintf(
		"the search attributes that Sluice needs cannot be created in namespace %s of %s: %v\n"+
			"help: ask an administrator to run: temporal operator search-attribute create --namespace %s %s",
		c.Info.Namespace, c.Info.TemporalAddress, err, c.Info.Namespace, strings.Join(flags, " ")), err)
}
