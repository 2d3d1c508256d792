package codec

import (
	"strings"

	"go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
)

// failures makes the text of errors valid UTF-8, as protobuf requires. An error may quote anything that a program prints. A failure that
// cannot be encoded never reaches the server, and the activity would run again after its timeout.
type failures struct{ converter.FailureConverter }

// ErrorToFailure implements converter.FailureConverter.
func (f failures) ErrorToFailure(err error) *failure.Failure {
	whole := f.FailureConverter.ErrorToFailure(err)
	for part := whole; part != nil; part = part.GetCause() {
		part.Message = strings.ToValidUTF8(part.GetMessage(), "\uFFFD")
		part.StackTrace = strings.ToValidUTF8(part.GetStackTrace(), "\uFFFD")
	}
	return whole
}
