package codec

import (
	"strings"

	"go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
)

// failures makes text of errors valid UTF-8, as protobuf demands. An error quotes what programs print, which may be anything, and one that
// cannot be sent is never heard of: its activity begins again when the server has given it up.
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
