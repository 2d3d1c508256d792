package schedule

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
)

// Restore puts the triggers back that were applied on this server (see Home) and that it does not have: its database was lost, or is that of
// another version. It returns their names. Times that passed meanwhile are not made up for.
func (s *Schedules) Restore(ctx context.Context) ([]string, error) {
	applied, err := s.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the applied triggers: %w", err)
	}
	var restored []string
	for _, a := range applied {
		if s.Home == "" || a.Home != s.Home {
			continue
		}
		d, err := Declare(a.Run.Trigger.Name, a.Spec, a.Run)
		if err != nil {
			return restored, err
		}
		_, err = s.Client.ScheduleClient().GetHandle(ctx, d.id()).Describe(ctx)
		var gone *serviceerror.NotFound
		if err == nil {
			continue
		} else if !errors.As(err, &gone) {
			return restored, fmt.Errorf("describe trigger %s: %w", d.id(), err)
		}
		d.Since = a.Since
		if err := s.put(ctx, d, a.Paused, a.Note); err != nil {
			return restored, fmt.Errorf("restore trigger %s: %w", d.id(), err)
		}
		restored = append(restored, d.id())
	}
	return restored, nil
}
