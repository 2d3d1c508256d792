package codec

import (
	"strings"

	"go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
)

// failures makes the text of errors valid UTF-8, as protobuf requires, and cuts what is too long. An error may quote anything that a program
// prints. A failure that cannot be encoded, or is too large, never reaches the server, and the activity would run again after its timeout.
type failures struct{ converter.FailureConverter }

// ErrorToFailure implements converter.FailureConverter.
func (f failures) ErrorToFailure(err error) *failure.Failure {
	whole := f.FailureConverter.ErrorToFailure(err)
	for part := whole; part != nil; part = part.GetCause() {
		part.Message = text(part.GetMessage())
		part.StackTrace = text(part.GetStackTrace())
	}
	return whole
}

// text is what Temporal takes of a text: of a long one its beginning and its end, which usually says why.
func text(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage/2] + " […] " + s[len(s)-maxMessage/2:]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
