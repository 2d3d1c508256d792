package cron

import (
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

var fixedOffset = regexp.MustCompile(`^[A-Za-z]*([+-])0?([0-9]{1,2})(?::?00)?$`)

// CheckTimezone reports what is not a time zone.
func CheckTimezone(src *document.Source, at *yaml.Node) {
	if _, err := time.LoadLocation(at.Value); err == nil && at.Value != "Local" && at.Value != "" {
		return
	}
	hint := "use a name from the IANA database, such as Europe/Berlin"
	near := []byte(strings.ReplaceAll(strings.ToLower(at.Value), " ", "_"))
	for i := range near {
		if i == 0 || near[i-1] == '/' || near[i-1] == '_' {
			near[i] = strings.ToUpper(string(near[i]))[0]
		}
	}
	if m := fixedOffset.FindStringSubmatch(at.Value); m != nil {
		hint += "; or the fixed offset Etc/GMT" + map[string]string{"+": "-", "-": "+"}[m[1]] + m[2] + ", whose sign is the other way round"
	} else if _, err := time.LoadLocation(string(near)); err == nil && string(near) != "Local" && len(near) > 0 {
		hint = "write " + string(near)
	}
	src.Errorf(at, "timezone", hint, "%q is not a time zone", at.Value)
}

// Check reports what is no cron expression, or hardly one that is meant, in the value of `cron`, which may be nil.
func Check(src *document.Source, at *yaml.Node, timezone string) {
	switch {
	case at == nil:
		return
	case at.Kind == yaml.SequenceNode && len(at.Content) == 0:
		src.Errorf(at, "cron", "write an expression, such as 0 3 * * *", "the list of times is empty")
		return
	}
	for _, item := range document.Items(at) {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || strings.Contains(item.Value, "${") {
			continue
		}
		parsed, err := Parse(item.Value)
		if err != nil {
			src.AddAt(document.SeverityError, item, err.Offset, "cron", err.Hint, "this is not a cron expression: "+err.Message)
		} else if unit, once := parsed.TooOften(); unit != "" {
			src.Warnf(item, "cron", "write "+once+" to start once", "a run starts every %s of these times", unit)
		} else if parsed.RestrictsBothDays() {
			src.Warnf(item, "cron", "write two expressions to start on days that match either", "a day must match both the day of the month and the day of the week here")
		} else if zone, err := time.LoadLocation(timezone); err == nil && timezone != "Local" {
			if what, hint := parsed.WhenClocksChange(zone); what != "" {
				src.Warnf(item, "cron", hint, "%s", what)
			}
		}
	}
}
