package answer

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
)

// Label is the answer that is right: a text, a class or a number, as the rule takes it. The zero value is no label.
type Label string

// LabelOf reads a label out of JSON: a boolean, a number or a text. nil is none.
func LabelOf(value any) (Label, error) {
	switch label := value.(type) {
	case nil:
		return "", nil
	case bool:
		if label {
			return "1", nil
		}
		return "0", nil
	case float64:
		return Label(text(label)), nil
	case string:
		return Label(label), nil
	}
	return "", oip.Invalid("parameters.label is %v; it must be a boolean, a number or a string", value)
}

// Wrong reports whether any row's answer is not the one that the label asks for, or there is none.
func (r Rules) Wrong(label Label, outputs []oip.Tensor) bool {
	if label == "" {
		return false
	}
	rule := r.orDefault()[0]
	t := outputOf(rule, outputs)
	if rule.Rule == spec.CompareTolerance {
		reference, err := strconv.ParseFloat(string(label), 64)
		values := numbersOf(t)
		return err != nil || len(values) == 0 || slices.ContainsFunc(values, func(v float64) bool { return !near(rule, v, reference) })
	}
	if t != nil && t.Datatype() != oip.Bytes {
		label = asNumber(label, t.Datatype() == oip.FP32 && rule.Rule == spec.CompareExact)
	}
	answers := answersOf(rule, t)
	return len(answers) == 0 || slices.ContainsFunc(answers, func(a string) bool { return a != string(label) })
}

// Loss is the mean difference of the answers and their label, over all rows, as a share of bound: 1 is the largest there is, and a row that is
// further off counts as 1. known is false where there is no bound, no label or no number.
func (r Rules) Loss(label Label, outputs []oip.Tensor, bound float64) (loss float64, known bool) {
	if label == "" || bound <= 0 {
		return 0, false
	}
	reference, err := strconv.ParseFloat(string(label), 64)
	values := numbersOf(outputOf(r.orDefault()[0], outputs))
	if err != nil || len(values) == 0 {
		return 0, false
	}
	for _, v := range values {
		loss += min(1, math.Abs(v-reference)/bound) / float64(len(values))
	}
	return loss, true
}

// asNumber is a label as an output of numbers says it: 1 for 1.0, which a dataset may have for the class; and as one of single precision would.
func asNumber(label Label, single bool) Label {
	bits := 64
	if single {
		bits = 32
	}
	v, err := strconv.ParseFloat(string(label), bits)
	if err != nil {
		return label
	}
	return Label(text(v))
}

// Fits says why no answer of a model with these outputs could be the label's. Outputs that are not described fit.
func (r Rules) Fits(label Label, outputs []oip.TensorMetadata) error {
	rule := r.orDefault()[0]
	out, ok := described(rule, outputs)
	if label == "" || !ok || out.Datatype == oip.Bytes {
		return nil
	}
	v, err := strconv.ParseFloat(string(label), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return oip.Invalid("parameters.label is %q, but the model's output %q is numeric, %s: use the number of the class, from 0", label, out.Name, out.Datatype)
	}
	if rule.Rule == spec.CompareTolerance || rule.Rule == spec.CompareExact {
		return nil
	}
	n, open := perRow(out)
	switch isOne := rule.Rule == "" && n == 1 && !open; {
	case rule.Rule == spec.CompareThreshold, isOne && isFloat(out.Datatype):
		n, open = 2, false
	case isOne:
		open = true // it is the class itself
	}
	if v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
		return oip.Invalid("parameters.label is %s, but the model's output %q is compared by class: %s", label, out.Name, regression)
	}
	if !open && (v < 0 || v >= float64(n)) {
		return oip.Invalid("parameters.label is %s, but according to the model's output %q (%s %v) its classes are 0 to %d: %s",
			label, out.Name, out.Datatype, out.Shape, n-1, regression)
	}
	return nil
}

// regression is what to do about labels that are no classes.
const regression = "labels are for classifiers, unless the rollout says `compare: {rule: tolerance, ...}`"

// described finds what is said of a rule's output; false where nothing is.
func described(rule spec.Compare, outputs []oip.TensorMetadata) (oip.TensorMetadata, bool) {
	for _, out := range outputs {
		if (rule.Output == "" || out.Name == rule.Output) && len(out.Shape) > 0 {
			return out, true
		}
	}
	return oip.TensorMetadata{}, false
}

// perRow is how many elements an output has for each row; open when the model does not say.
func perRow(out oip.TensorMetadata) (n int64, open bool) {
	n = 1
	for _, d := range out.Shape[1:] {
		if d < 1 {
			return 0, true
		}
		n *= d
	}
	return n, false
}

// Check says why answers of models with these outputs cannot be compared by the rules. Outputs that are not described can.
func (r Rules) Check(outputs []oip.TensorMetadata) error {
	if len(outputs) == 0 {
		return nil
	}
	for _, rule := range r {
		if err := check(rule, outputs); err != nil {
			return err
		}
	}
	return nil
}

func check(rule spec.Compare, outputs []oip.TensorMetadata) error {
	i := slices.IndexFunc(outputs, func(o oip.TensorMetadata) bool { return rule.Output == "" || o.Name == rule.Output })
	if i < 0 {
		names := make([]string, len(outputs))
		for i, o := range outputs {
			names[i] = strconv.Quote(o.Name)
		}
		return fmt.Errorf("`compare`: the model has no output %q; it has %v", rule.Output, names)
	}
	out := outputs[i]
	if rule.Rule == "" || rule.Rule == spec.CompareExact {
		return nil
	}
	if out.Datatype == oip.Bytes {
		return fmt.Errorf("`compare`: `rule: %s` is for numbers, but the model's output %q is text: use `rule: exact`", rule.Rule, out.Name)
	}
	if len(out.Shape) == 0 {
		return fmt.Errorf("`compare`: the model's output %q has no dimension for rows", out.Name)
	}
	switch n, open := perRow(out); {
	case open:
	case rule.Rule == spec.CompareTop1 && n < 2:
		return fmt.Errorf("`compare`: `rule: top1` compares several numbers per row, but the model's output %q (%s %v) has one", out.Name, out.Datatype, out.Shape)
	case rule.Rule == spec.CompareThreshold && n != 1:
		return fmt.Errorf("`compare`: `rule: threshold` compares one number per row, but the model's output %q (%s %v) has %d: use `rule: top1`",
			out.Name, out.Datatype, out.Shape, n)
	}
	return nil
}

// CheckLabels says why no label, which is one text or number, can judge the answers of models with these outputs.
func (r Rules) CheckLabels(outputs []oip.TensorMetadata) error {
	rule := r.orDefault()[0]
	out, ok := described(rule, outputs)
	if !ok || rule.Rule != spec.CompareTolerance && rule.Rule != spec.CompareExact {
		return nil
	}
	if n, open := perRow(out); !open && n != 1 {
		return fmt.Errorf("a label is one value, but the model's output %q (%s %v) has %d per row: name another `output` in `compare`, or another `rule`",
			out.Name, out.Datatype, out.Shape, n)
	}
	return nil
}

// CheckAgreement says why answers of models with these outputs have nothing to agree on without a rule that says what.
func (r Rules) CheckAgreement(outputs []oip.TensorMetadata) error {
	for _, rule := range r.orDefault() {
		out, ok := described(rule, outputs)
		if !ok || rule.Rule != "" {
			continue
		}
		wide := 0
		for _, d := range out.Shape[1:] {
			if d > 1 {
				wide++
			}
		}
		if wide > 1 {
			return fmt.Errorf("a check reads delta.agreement, but the model's output %q (%s %v) has no class in a row: say with `compare` when two answers agree,"+
				" such as {rule: tolerance, rtol: 0.01}", out.Name, out.Datatype, out.Shape)
		}
	}
	return nil
}

// CheckAnswers says why answers that were given have nothing to agree on: numbers that are no class and no probability are the same by accident.
func (r Rules) CheckAnswers(outputs []oip.Tensor) error {
	for _, rule := range r.orDefault() {
		if name, v, found := noClass(rule, outputs); found {
			return fmt.Errorf("a check reads delta.agreement, but the model's output %q is %v, which is neither a class nor a probability: say with `compare` when"+
				" two answers agree, such as {rule: tolerance, rtol: 0.05}", name, v)
		}
	}
	return nil
}

// CheckLabelledAnswers says why answers that were given agree with no label: a classifier's may be logits, whose sign is the class.
func (r Rules) CheckLabelledAnswers(outputs []oip.Tensor) error {
	if name, v, found := noClass(r.orDefault()[0], outputs); found {
		return fmt.Errorf("the model's output %[1]q is %[2]v, which is neither a class nor a probability, so no label agrees with it: say with `compare` when an answer is"+
			" right, such as {output: %[1]q, rule: threshold, threshold: 0} for logits of two classes or {output: %[1]q, rule: tolerance, rtol: 0.05} for a regression",
			name, v)
	}
	return nil
}

// noClass finds a row's only number that without a rule is compared as it is, though it is no class and no probability.
func noClass(rule spec.Compare, outputs []oip.Tensor) (output string, value float64, found bool) {
	t := outputOf(rule, outputs)
	if rule.Rule != "" || t == nil || len(t.Shape) == 0 || !isFloat(t.Datatype()) {
		return "", 0, false
	}
	values := numbersOf(t)
	if int64(len(values)) != t.Shape[0] {
		return "", 0, false
	}
	i := slices.IndexFunc(values, func(v float64) bool { return (v < 0 || v > 1) && v != math.Trunc(v) })
	if i < 0 {
		return "", 0, false
	}
	return t.Name, values[i], true
}
