package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// Fault is what is wrong with a bucket, in words for whoever wrote its address.
type Fault struct {
	// Invalid says that trying again does not help: the address or the credentials must change.
	Invalid bool
	// Denied says that the credentials are known and may not do this.
	Denied bool
	// Away says that nothing is wrong but that the server cannot be reached, or cannot answer now.
	Away bool
	// Full says that there is no room left.
	Full bool
	// Nested says that the server keeps objects as files, and that the key is a folder of another, or the other of it.
	Nested bool
	Why    string
	err    error
}

func (f *Fault) Error() string { return f.Why }

// Unwrap returns what the server or its client said.
func (f *Fault) Unwrap() error { return f.err }

func invalid(err error, format string, args ...any) *Fault {
	return &Fault{Invalid: true, Why: fmt.Sprintf(format, args...), err: err}
}

// permissions are what an operation of S3 needs.
var permissions = map[string]string{
	"ListObjectsV2": "s3:ListBucket", "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "DeleteObject": "s3:DeleteObject",
	"PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject", "CompleteMultipartUpload": "s3:PutObject",
}

// Explain says what an error means that an operation on a bucket had.
func Explain(a objectstore.Address, err error) *Fault {
	if known, ok := errors.AsType[*Fault](err); ok {
		return known
	}
	if unsent, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return &Fault{Away: true, err: err, Why: fmt.Sprintf("no response from %s (%s): is the address correct, and reachable from this machine?",
			cmp.Or(a.Endpoint, "S3"), excerpt(unsent.Err.Error()))}
	}
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && answer.HTTPStatusCode() >= http.StatusMultipleChoices {
		if region := answer.Response.Header.Get("X-Amz-Bucket-Region"); region != "" && region != a.Region {
			return invalid(err, "the bucket is in the region %s: write ?region=%[1]s", excerpt(region))
		}
	}
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		return refused(a, said, err)
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return invalid(err, "the bucket %s does not exist, or the credentials do not allow access", a.Name)
	case gcerrors.PermissionDenied:
		return &Fault{Invalid: true, Denied: true, Why: "the credentials do not allow this", err: err}
	default:
		return &Fault{Away: isAway(err), Why: excerpt(err.Error()), err: err}
	}
}

// isAway reports whether an error means that nobody answered, or that who did cannot do more now.
func isAway(err error) bool {
	var inS3 *smithyhttp.ResponseError
	var inGoogle *googleapi.Error
	var network net.Error
	switch {
	case errors.As(err, &inS3):
		return comesBack(inS3.HTTPStatusCode())
	case errors.As(err, &inGoogle):
		return comesBack(inGoogle.Code)
	}
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// comesBack reports whether a status is that of a server which may do later what it was asked.
func comesBack(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// refused explains what an S3 server answered.
func refused(a objectstore.Address, said smithy.APIError, err error) *Fault {
	answered := excerpt(cmp.Or(said.ErrorMessage(), said.ErrorCode()))
	switch code := said.ErrorCode(); code {
	case "NoSuchBucket", "NotFound":
		return invalid(err, "there is no bucket %s", a.Name)
	case "AccessDenied", "Forbidden", "AllAccessDisabled":
		var op *smithy.OperationError
		needs := "access"
		if errors.As(err, &op) {
			needs = cmp.Or(permissions[op.OperationName], needs)
		}
		f := invalid(err, "the AWS credentials do not allow this: grant them %s (%s)", needs, answered)
		f.Denied = true
		return f
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return invalid(err, "the AWS credentials were rejected as %s (%s)", code, answered)
	case "PermanentRedirect", "AuthorizationHeaderMalformed":
		return invalid(err, "the bucket is in another region: write ?region= (%s)", answered)
	case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull":
		return &Fault{Full: true, Why: answered, err: err}
	case "ExistingObjectIsDirectory", "ObjectParentIsFile", "XMinioObjectExistsAsDirectory", "XMinioParentIsObject":
		return &Fault{Nested: true, Why: answered, err: err}
	default:
		return &Fault{Away: isAway(err), Why: fmt.Sprintf("%s: %s", excerpt(code), answered), err: err}
	}
}

// Changed reports whether a server says that an object is not what the request demanded: it has another version, or is there.
func Changed(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.Is(err, errChanged) || gcerrors.Code(err) == gcerrors.FailedPrecondition ||
		errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusPreconditionFailed
}

// Contended reports whether S3 gave up a conditional write because another one was under way, and wants to be asked again.
func Contended(err error) bool {
	var said smithy.APIError
	return errors.As(err, &said) && said.ErrorCode() == "ConditionalRequestConflict"
}

// excerpt is one line of what a server or its client said.
func excerpt(said string) string { return human.Cut(human.Line(said), 301) }
