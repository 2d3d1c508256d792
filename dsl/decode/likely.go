package decode

import (
	"cmp"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

var (
	numberInside = regexp.MustCompile(`^[^\d.+-]{0,4}([+-]?\d[\d,_]*(?:\.\d+)?(?:[eE]\d+)?)\s*([A-Za-z]*)`)
	decimalComma = regexp.MustCompile(`^\d+,(?:\d{1,2}|\d{4,})$`)
	rangeOf      = regexp.MustCompile(`^(\d+)\s*(?:-|\.\.|to)\s*(\d+)$`)
	sizeLike     = regexp.MustCompile(`^(\d+(?:[.,]\d+)?)\s*([kmgtKMGT])i?[bB]?`)
	dateLike     = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?$`)
)

// LikelyHint is how a value of a type was likely meant that is written in another way; empty where that is not known.
func LikelyHint(n *yaml.Node, t reflect.Type) string {
	switch t {
	case spec.DurationType, spec.ShareType: // the message says it
		return ""
	case spec.SizeType:
		if m := sizeLike.FindStringSubmatch(n.Value); m != nil {
			return "write " + strings.Replace(m[1], ",", ".", 1) + strings.ToUpper(m[2]) + "iB"
		}
		return ""
	case spec.TimeType:
		if m := dateLike.FindStringSubmatch(n.Value); m != nil {
			return "write " + m[1] + "T" + cmp.Or(m[2], "00:00") + cmp.Or(m[3], ":00") + "Z, or with the offset from UTC"
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		return "write true or false"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return likelyNumber(n, t.Kind() == reflect.Float64)
	}
	return ""
}

// likelyNumber is how a number is written that was written with a unit, in quotes, or with a fraction where there is none.
func likelyNumber(n *yaml.Node, fraction bool) string {
	if m := rangeOf.FindStringSubmatch(n.Value); m != nil {
		return "write {min: " + m[1] + ", max: " + m[2] + "} where a range is allowed"
	}
	m := numberInside.FindStringSubmatch(n.Value)
	if m == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	if decimalComma.MatchString(m[1]) {
		m[1] = strings.Replace(m[1], ",", ".", 1)
	}
	x, err := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "").Replace(m[1]), 64)
	if err != nil {
		return ""
	}
	switch strings.ToLower(m[2]) {
	case "k":
		x *= 1e3
	case "m":
		if x *= 1e6; fraction { // thousandths, as in Kubernetes
			x /= 1e9
		}
	}
	if !fraction && x != math.Trunc(x) {
		return "write a whole number"
	}
	number := strconv.FormatFloat(x, 'f', -1, 64)
	if number == n.Value && n.Tag != "!!str" {
		return ""
	}
	if n.Tag == "!!str" && n.Value == m[1] && n.Style != 0 {
		return "write " + number + ", without quotes"
	}
	return "write " + number
}
