package cloud

import (
	"context"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// partsKey is that of a context's RetryParts.
type partsKey struct{}

// RetryParts does what sends a part of a large object, and does it again as long as that may help.
type RetryParts func(send func() error) error

// WithRetryParts has S3's clients send each part of a large object that is written with the context by way of retry: a part that does not
// arrive would otherwise be the end of all that have.
func WithRetryParts(ctx context.Context, retry RetryParts) context.Context {
	return context.WithValue(ctx, partsKey{}, retry)
}

// retryParts is around the few attempts that the SDK itself makes.
func retryParts(stack *middleware.Stack) error {
	if _, sends := stack.Finalize.Get("Retry"); !sends {
		return nil // an address is signed, and nothing sent
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("RetryParts", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
		retry, ok := ctx.Value(partsKey{}).(RetryParts)
		if !ok || awsmiddleware.GetOperationName(ctx) != "UploadPart" {
			return next.HandleFinalize(ctx, in)
		}
		err = retry(func() (err error) {
			if request, ok := in.Request.(*smithyhttp.Request); ok {
				if err := request.RewindStream(); err != nil {
					return err
				}
			}
			out, metadata, err = next.HandleFinalize(ctx, in)
			return err
		})
		return out, metadata, err
	}), "Retry", middleware.Before)
}
