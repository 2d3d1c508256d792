package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/connect"
)

// Restore recreates the triggers that were applied on this server (see Home) and that it no longer has, because its database was lost or is
// that of another version. It returns their names; the error covers those that could not be recreated. Times that passed in the meantime
// are not made up for.
func (s *Schedules) Restore(ctx context.Context) ([]string, error) {
	applied, err := s.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the applied triggers: %w", err)
	}
	var restored []string
	var errs []error
	for _, a := range applied {
		if s.Home == "" || a.Home != s.Home {
			continue
		}
		id, err := s.restore(ctx, a)
		switch {
		case err != nil:
			errs = append(errs, err)
		case id != "":
			restored = append(restored, id)
		}
	}
	return restored, errors.Join(errs...)
}

// restore recreates one trigger and returns its name. The name is empty if the server has the trigger.
func (s *Schedules) restore(ctx context.Context, a Applied) (string, error) {
	d, err := Declare(a.Run.Trigger.Name, a.Spec, a.Run)
	if err != nil {
		return "", err
	}
	_, err = s.Client.ScheduleClient().GetHandle(ctx, d.id()).Describe(ctx)
	if err == nil {
		return "", nil
	} else if !connect.IsNotFound(err) {
		return "", fmt.Errorf("describe trigger %s: %w", d.id(), err)
	}
	d.Since = a.Since
	if err := s.put(ctx, d, a.Paused, a.Note); err != nil {
		return "", fmt.Errorf("restore trigger %s: %w", d.id(), err)
	}
	return d.id(), nil
}
