package cron

import (
	"fmt"
	"strings"
	"time"
)

// WhenClocksChange says what becomes of a start of the expression in a night in which the clocks of a zone are changed, and what to write
// instead; it is empty where each happens as on other days.
func (c Expression) WhenClocksChange(zone *time.Location) (what, hint string) {
	// Any years from now on: that there is summer time seldom changes; after 28 years the days of the week are the same.
	at, until := time.Date(2026, 1, 1, 0, 0, 0, 0, zone), time.Date(2054, 1, 1, 0, 0, 0, 0, zone)
	for {
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(until) {
			return "", ""
		}
		if !change.After(at) { // on the last day of some leap years, ZoneBounds takes the end of the year's rules for the end of the zone
			at = at.Add(24 * time.Hour)
			continue
		}
		_, before := change.Add(-time.Second).Zone()
		_, after := change.Zone()
		switch by := time.Duration(after-before) * time.Second; {
		case by > 0:
			what, hint = c.skipped(change, by)
		case by < 0:
			what, hint = c.repeated(change, -by)
		}
		if what != "" {
			return what, hint
		}
		at = change
	}
}

const (
	anotherTime = "choose another time, or write `timezone: UTC`"
	eachHour    = "to start each hour, write `timezone: UTC`, or `every` instead of `cron`"
)

// everyHour reports whether the expression starts something in the next hour, too.
func (c Expression) everyHour() bool { return strings.HasPrefix(c.Fields[hourField], "*") }

// skipped is what happens when the clocks go forward at a moment. An expression of every hour loses nothing: it starts something in the next.
func (c Expression) skipped(change time.Time, by time.Duration) (what, hint string) {
	if c.everyHour() {
		return "", ""
	}
	_, offset := change.Add(-time.Second).Zone()
	clock := change.Add(time.Duration(offset) * time.Second).UTC() // of the minutes that are passed over
	for end := clock.Add(by); clock.Before(end); clock = clock.Add(time.Minute) {
		if c.starts(clock) {
			return fmt.Sprintf("when the clocks in %s go forward, there is no %s that night, and no run starts", change.Location(), clock.Format("15:04")), anotherTime
		}
	}
	return "", ""
}

// repeated is what happens when the clocks go back at a moment: of the two times at which the clock shows a minute, Temporal starts
// something at both, at one or at none, which differs between zones.
func (c Expression) repeated(change time.Time, by time.Duration) (what, hint string) {
	const around = 4 * time.Hour
	began := map[time.Time]bool{}
	for at := c.next(change.Add(-around)); !at.IsZero() && at.Before(change.Add(around)); at = c.next(at) {
		began[at.UTC()] = true
	}
	for first := change.Add(-by); first.Before(change); first = first.Add(time.Minute) {
		_, offset := first.Zone()
		if clock := first.Add(time.Duration(offset) * time.Second).UTC(); !c.starts(clock) {
			continue
		}
		clock, one, two := first.Format("15:04"), began[first.UTC()], began[first.Add(by).UTC()]
		switch {
		case !one && !two:
			return fmt.Sprintf("when the clocks in %s go back, no run starts at %s that night", change.Location(), clock), anotherTime
		case one && two && !c.everyHour():
			return fmt.Sprintf("when the clocks in %s go back, %s comes twice that night, and the run starts twice", change.Location(), clock), anotherTime
		case one != two && c.everyHour():
			return fmt.Sprintf("when the clocks in %s go back, %s comes twice that night, but a run starts only once", change.Location(), clock), eachHour
		}
	}
	return "", ""
}

// next is the minute after one in which Temporal starts something, computed as its schedules do it (compiledCalendar.next, in its package
// scheduler): of the two times at which the clock shows a minute, time.Date returns one, the earlier west of Greenwich and the later east
// of it, and only the hour after an earlier one is tried again. It is zero where there is none within days.
func (c Expression) next(after time.Time) time.Time {
	zone := after.Location()
	y, month, d := after.Date()
	h, m := after.Hour(), after.Minute()+1
	again := after.Add(-time.Hour).Hour() == h // the second hour of two
	for last := d + 2; d <= last; {
		if m >= 60 {
			this, following := time.Date(y, month, d, h, 0, 0, 0, zone), time.Date(y, month, d, h+1, 0, 0, 0, zone)
			m, again = 0, !again && following.Sub(this) > time.Hour
			if !again {
				h++
			}
		}
		at := time.Date(y, month, d, h, m, 0, 0, zone)
		switch day := time.Date(y, month, d, 12, 0, 0, 0, time.UTC); {
		case h >= 24:
			d, h = d+1, 0
		case !c.onDay(day.Day(), day.Month(), at.Weekday()):
			d, h, m, again = d+1, 0, 0, false
		case !has(c.values[hourField], h):
			h, m, again = h+1, 0, false
		case !has(c.values[minuteField], m):
			m++
		case at.Hour() != h: // the clock passes over it
			h, m = h+1, 0
		case again:
			return at.Add(time.Hour)
		default:
			return at
		}
	}
	return time.Time{}
}

// starts reports whether the expression starts something in a minute of the clock.
func (c Expression) starts(t time.Time) bool {
	return has(c.values[minuteField], t.Minute()) && has(c.values[hourField], t.Hour()) && c.onDay(t.Day(), t.Month(), t.Weekday())
}

func (c Expression) onDay(day int, month time.Month, weekday time.Weekday) bool {
	return has(c.values[dayField], day) && has(c.values[monthField], int(month)) && has(c.values[weekdayField], int(weekday))
}

func has(values uint64, v int) bool { return values&(1<<v) != 0 }
