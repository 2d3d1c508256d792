package cloud

import (
	"context"
	"errors"
	"strconv"

	gcs "cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
)

// Version is what tells an object in a list from another one with its key: S3's ETag or Google's generation. It is empty when the server
// gives none.
func Version(o *blob.ListObject) string {
	var inS3 types.Object
	var inGoogle gcs.ObjectAttrs
	switch {
	case o.As(&inS3):
		return aws.ToString(inS3.ETag)
	case o.As(&inGoogle):
		return strconv.FormatInt(inGoogle.Generation, 10)
	}
	return ""
}

// VersionRead is the version of the object that a reader reads.
func VersionRead(r *blob.Reader) string {
	var inS3 s3.GetObjectOutput
	var inGoogle *gcs.Reader
	switch {
	case r.As(&inS3):
		return aws.ToString(inS3.ETag)
	case r.As(&inGoogle):
		return strconv.FormatInt(inGoogle.Attrs.Generation, 10)
	}
	return ""
}

// errChanged: the object has another version than was asked for.
var errChanged = errors.New("the object has been changed")

// ReadVersion reads length bytes of an object from an offset on, all that follow when length is negative. If it has another version by
// now, the error is one that Changed knows.
func ReadVersion(ctx context.Context, b *blob.Bucket, key, version string, offset, length int64) (*blob.Reader, error) {
	r, err := b.NewRangeReader(ctx, key, offset, length, &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		var inS3 *s3.GetObjectInput
		if version != "" && as(&inS3) {
			inS3.IfMatch = &version
		}
		var inGoogle **gcs.ObjectHandle
		if generation, err := strconv.ParseInt(version, 10, 64); err == nil && as(&inGoogle) {
			*inGoogle = (*inGoogle).Generation(generation)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	var answer s3.GetObjectOutput // not every server knows If-Match
	if r.As(&answer) && version != "" && aws.ToString(answer.ETag) != version {
		return nil, errors.Join(errChanged, r.Close())
	}
	return r, nil
}
