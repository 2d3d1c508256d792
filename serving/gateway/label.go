package gateway

import (
	"math"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
)

// expectation is the answer a request's label asks for; empty when it has none.
type expectation string

// expected reads the parameter `label`: a boolean or a whole number for the class, a text for a model that answers with text.
func expected(parameters map[string]any) (expectation, error) {
	switch label := parameters["label"].(type) {
	case nil:
		return "", nil
	case bool:
		if label {
			return "1", nil
		}
		return "0", nil
	case float64:
		if label == math.Trunc(label) && math.Abs(label) < 1<<53 {
			return expectation(strconv.FormatInt(int64(label), 10)), nil
		}
	case string:
		return expectation(label), nil
	}
	return "", oip.Invalid("parameters.label is %v; it must be a boolean, a whole number or a text", parameters["label"])
}

// wrong reports whether any row's answer is not the one expected, or there is none.
func (e expectation) wrong(outputs []oip.Tensor) bool {
	if e == "" {
		return false
	}
	answers := answer.Of(outputs)
	return len(answers) == 0 || slices.ContainsFunc(answers, func(a string) bool { return a != string(e) })
}
