package gateway

import (
	"crypto/subtle"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	return "", oip.Invalid("parameters.label is %v; it must be a boolean, an integer or a string", parameters["label"])
}

// wrong reports whether any row's answer is not the one expected, or there is none.
func (e expectation) wrong(outputs []oip.Tensor) bool {
	if e == "" {
		return false
	}
	answers := answer.Of(outputs)
	return len(answers) == 0 || slices.ContainsFunc(answers, func(a string) bool { return a != string(e) })
}

// fits says why no answer of a classifier with these outputs could be the one expected. Outputs that are not described fit.
func (e expectation) fits(outputs []oip.TensorMetadata) error {
	if e == "" || len(outputs) == 0 || len(outputs[0].Shape) == 0 || outputs[0].Datatype == oip.Bytes {
		return nil
	}
	first := outputs[0]
	class, err := strconv.ParseInt(string(e), 10, 64)
	if err != nil {
		return oip.Invalid("parameters.label is %q, but the model's first output %q is numeric, %s: use the number of the class, from 0", e, first.Name, first.Datatype)
	}
	classes := int64(1)
	for _, n := range first.Shape[1:] {
		if n < 1 {
			return nil // as many as an answer has
		}
		classes *= n
	}
	isFloat := first.Datatype == oip.FP32 || first.Datatype == oip.FP64
	switch {
	case classes == 1 && !isFloat:
		return nil // it is the class itself
	case classes == 1:
		classes = 2 // by a threshold
	}
	if class < 0 || class >= classes {
		return oip.Invalid("parameters.label is %d, but according to the model's first output %q (%s %v) its classes are 0 to %d: labels are for classifiers",
			class, first.Name, first.Datatype, first.Shape, classes-1)
	}
	return nil
}

// LabelHeader returns the Authorization header of requests with a label, for a gateway with this LabelKey.
func LabelHeader(key string) string { return "Bearer " + key }

// mayLabel refuses labels of senders without the key: labels decide whether a release is kept.
func (g *Gateway) mayLabel(header http.Header, parameters map[string]any) error {
	scheme, key, _ := strings.Cut(header.Get("Authorization"), " ")
	isKey := strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(key), []byte(g.opts.LabelKey)) == 1
	if parameters["label"] == nil || g.opts.LabelKey == "" || isKey {
		return nil
	}
	return &oip.Error{Status: http.StatusUnauthorized, Message: "parameters.label affects releases, so it is only accepted with the header" +
		" `Authorization: Bearer KEY`; KEY is in the file label.key in Sluice's state folder. Send the key, or no label"}
}
