package inference

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluiceml/sluice/serving/oip"
)

// maxParameters bounds the parameters of a request, those of its tensors included.
const maxParameters = 4 * oip.MaxTensors

// The fields of a request that repeat something.
const (
	fieldParameters, fieldInputs, fieldOutputs, fieldRaw = 4, 5, 6, 7 // of ModelInferRequest
	fieldShape, fieldInputParameters                     = 3, 4       // of an input
	fieldOutputParameters                                = 2          // of an output
)

// Bounded refuses the bytes of a ModelInferRequest that has too many tensors, dimensions or parameters, which take up to a hundred times
// their bytes when they are decoded. It says nothing of bytes that are no message. Its errors are oip.Errors with status 400.
func Bounded(message []byte) error {
	var inputs, outputs, raws, parameters int
	var err error
	each(message, func(field int, value []byte) bool {
		switch field {
		case fieldParameters:
			parameters++
		case fieldInputs:
			inputs++
			dimensions := 0
			each(value, func(field int, value []byte) bool {
				switch field {
				case fieldShape:
					dimensions += varints(value)
				case fieldInputParameters:
					parameters++
				}
				return true
			})
			if dimensions > oip.MaxDimensions {
				err = oip.Invalid("a shape has %d dimensions, more than %d", dimensions, oip.MaxDimensions)
			}
		case fieldOutputs:
			outputs++
			each(value, func(field int, _ []byte) bool {
				if field == fieldOutputParameters {
					parameters++
				}
				return true
			})
		case fieldRaw:
			raws++
		}
		for _, m := range []struct {
			n, most int
			what    string
		}{
			{inputs, oip.MaxTensors, "inputs"},
			{outputs, oip.MaxTensors, "outputs"},
			{raws, oip.MaxTensors, "raw_input_contents"},
			{parameters, maxParameters, "parameters"},
		} {
			if m.n > m.most {
				err = oip.Invalid("the request has more than %d %s", m.most, m.what)
			}
		}
		return err == nil
	})
	return err
}

// each yields the fields of a message: the bytes of those that have a length, of others as they are encoded.
func each(message []byte, yield func(int, []byte) bool) {
	for len(message) > 0 {
		field, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, typ, message); n < 0 {
			return
		}
		value := message[:n]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if !yield(int(field), value) {
			return
		}
		message = message[n:]
	}
}

// varints is how many varints bytes hold: each ends with one whose first bit is not set.
func varints(packed []byte) (n int) {
	for _, b := range packed {
		if b < 0x80 {
			n++
		}
	}
	return n
}
