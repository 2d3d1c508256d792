package compile

import (
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"
)

// modelBytes is the size of a model file and of the files beside it that hold its external data.
func modelBytes(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("measure the size of a model: %w", err)
	}
	siblings, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return 0, fmt.Errorf("measure the size of a model: %w", err)
	}
	total := info.Size()
	if len(siblings) == 1 {
		return total, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("measure the size of a model: %w", err)
	}
	external := map[string]bool{}
	if err := modelMessage.externalData(content, external); err != nil {
		return 0, &ModelError{fmt.Sprintf("%s: %v", filepath.Base(file), err)}
	}
	for name := range external {
		info, err := os.Stat(filepath.Join(filepath.Dir(file), name))
		if err != nil {
			return 0, &ModelError{fmt.Sprintf("the external data of %s: %v", filepath.Base(file), err)}
		}
		total += info.Size()
	}
	return total, nil
}

// message says in which fields of a protobuf message tensors are to be found; tensor is where their external data is named.
type message map[protowire.Number]message

// The messages of onnx.proto that lead to tensors.
var (
	tensorMessage    = message{externalDataField: nil}
	attributeMessage = message{5: tensorMessage, 10: tensorMessage}
	graphMessage     = message{5: tensorMessage, 1: {5: attributeMessage}}
	modelMessage     = message{7: graphMessage}
)

func init() {
	attributeMessage[6], attributeMessage[11] = graphMessage, graphMessage // graphs within graphs
}

// externalDataField of a TensorProto is repeated: a key, which is "location" where its value names the file, and a value.
const externalDataField protowire.Number = 13

// externalData collects the names of the files that hold tensors of a message.
func (m message) externalData(content []byte, files map[string]bool) error {
	return fields(content, func(number protowire.Number, value []byte) error {
		inner, known := m[number]
		switch {
		case !known:
			return nil
		case inner != nil:
			return inner.externalData(value, files)
		}
		var entry [3]string
		err := fields(value, func(number protowire.Number, value []byte) error {
			if number == 1 || number == 2 {
				entry[number] = string(value)
			}
			return nil
		})
		if entry[1] == "location" {
			files[entry[2]] = true
		}
		return err
	})
}

// fields calls f for every field of a message that has bytes.
func fields(content []byte, f func(number protowire.Number, value []byte) error) error {
	for len(content) > 0 {
		number, kind, n := protowire.ConsumeTag(content)
		if n < 0 {
			return protowire.ParseError(n)
		}
		content = content[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, content); n < 0 {
				return protowire.ParseError(n)
			}
			content = content[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(content)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}
