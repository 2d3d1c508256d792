package pipelines

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	gcs "cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	smithyhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// bucketPath is a pattern of objects in a bucket.
type bucketPath struct {
	// bucket is the bucket's address, as gocloud has it.
	bucket string
	// shown begins the names of what is found: s3://bucket/
	shown string
	// pattern is of keys.
	pattern string
}

// bucketScheme finds what says that a path is not of this machine.
var bucketScheme = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

// bucketOptions are what may follow the ? of a path, by scheme.
var bucketOptions = map[string][]string{"s3": {"region", "endpoint", "anonymous"}, "gs": {"anonymous"}}

// inBucket reports whether a pattern is of objects in a bucket, or meant to be.
func inBucket(pattern string) bool { return bucketScheme.MatchString(pattern) }

// usualRegion is what servers other than AWS's go by when they are not told another.
const usualRegion = "us-east-1"

// parseBucketPath reads s3://bucket/pattern?region=...&endpoint=... or gs://bucket/pattern.
func parseBucketPath(text string) (bucketPath, error) {
	where, query, _ := strings.Cut(text, "?")
	scheme, rest, _ := strings.Cut(where, "://")
	allowed, ok := bucketOptions[scheme]
	if !ok {
		return bucketPath{}, fault(TypeInvalid, "path %q: files are read from folders, s3:// and gs://", text)
	}
	name, pattern, _ := strings.Cut(rest, "/")
	options, err := url.ParseQuery(query)
	switch {
	case err != nil:
		return bucketPath{}, fault(TypeInvalid, "path %q: what follows the ? cannot be read: %w", text, err)
	case name == "" || pattern == "":
		return bucketPath{}, fault(TypeInvalid, "path %q: write %s://BUCKET/PATTERN", text, scheme)
	}
	for option := range options {
		if !slices.Contains(allowed, option) {
			return bucketPath{}, fault(TypeInvalid, "path %q: %q is no option of a bucket; there are %s; a ? that stands for any character is not known here",
				text, option, strings.Join(allowed, ", "))
		}
	}
	own := cmp.Or(options.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if scheme == "s3" && own != "" { // not every server has a host name for each bucket
		options.Set("use_path_style", "true")
		if options.Get("region") == "" && os.Getenv("AWS_REGION") == "" {
			options.Set("region", usualRegion)
		}
	}
	address := url.URL{Scheme: scheme, Host: name, RawQuery: options.Encode()}
	return bucketPath{bucket: address.String(), shown: scheme + "://" + name + "/", pattern: pattern}, nil
}

var buckets sync.Map // of func() (*blob.Bucket, error) by address; they stay open as long as the process lives

// openBucket opens a bucket, once, with the credentials that the machine, the environment or the clouds' own tools give.
func openBucket(address string) (*blob.Bucket, error) {
	once, _ := buckets.LoadOrStore(address, sync.OnceValues(func() (*blob.Bucket, error) {
		return blob.OpenBucket(context.Background(), address) // which outlives the reading that opens it
	}))
	return once.(func() (*blob.Bucket, error))()
}

// findObjects lists the objects that a pattern matches.
func findObjects(ctx context.Context, text string) ([]inputFile, error) {
	at, err := parseBucketPath(text)
	if err != nil {
		return nil, err
	}
	segments := strings.Split(at.pattern, "/")
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return nil, fault(TypeInvalid, "path %q: %w", text, err)
		}
	}
	bucket, err := openBucket(at.bucket)
	if err != nil {
		return nil, bucketFault("open", at.shown, err)
	}
	var files []inputFile
	objects := bucket.List(&blob.ListOptions{Prefix: literalPrefix(at.pattern)})
	for {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, bucketFault("list", at.shown, err)
		}
		if !strings.HasSuffix(o.Key, "/") && matchName(segments, strings.Split(o.Key, "/")) {
			files = append(files, inputFile{Path: o.Key, Name: at.shown + o.Key, Size: o.Size, Bucket: at.bucket, Version: versionOf(o)})
		}
	}
}

// literalPrefix is what all keys that a pattern matches begin with.
func literalPrefix(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// versionOf is what tells an object from another one with its key: S3's ETag or Google's generation.
func versionOf(o *blob.ListObject) string {
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

// object reads length bytes of an object from an offset on, all that follow when length is negative. It must be as it was listed.
func (f inputFile) object(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	bucket, err := openBucket(f.Bucket)
	if err != nil {
		return nil, bucketFault("open", f.Name, err)
	}
	r, err := bucket.NewRangeReader(ctx, f.Path, offset, length, &blob.ReaderOptions{BeforeRead: f.asListed})
	switch {
	case err != nil && (changed(err) || gcerrors.Code(err) == gcerrors.NotFound):
		return nil, f.changed()
	case err != nil:
		return nil, bucketFault("read", f.Name, err)
	}
	var answer s3.GetObjectOutput
	if r.Size() != f.Size || r.As(&answer) && f.Version != "" && aws.ToString(answer.ETag) != f.Version {
		return nil, errors.Join(f.changed(), r.Close())
	}
	return r, nil
}

// asListed asks for the version that was listed.
func (f inputFile) asListed(as func(any) bool) error {
	var inS3 *s3.GetObjectInput
	if f.Version != "" && as(&inS3) {
		inS3.IfMatch = &f.Version
	}
	var inGoogle **gcs.ObjectHandle
	if generation, err := strconv.ParseInt(f.Version, 10, 64); err == nil && as(&inGoogle) {
		*inGoogle = (*inGoogle).Generation(generation)
	}
	return nil
}

// changed reports whether a server says that an object is not what was asked for.
func changed(err error) bool {
	var answer *smithyhttp.ResponseError
	return gcerrors.Code(err) == gcerrors.FailedPrecondition || errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusPreconditionFailed
}

func (f inputFile) changed() error {
	return fault(TypeUser, "%s has been changed or removed since it was listed; clean again when nothing writes there", f.Name)
}

// bucketFault says what an error of a bucket means for whoever wrote the path.
func bucketFault(what, where string, err error) error {
	typ := TypeInfrastructure
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument:
		typ = TypeInvalid
	default:
	}
	return fault(typ, "%s %s: %w", what, where, err)
}

// objectAt reads an object by ranges, each with a request of its own.
type objectAt struct {
	ctx  context.Context
	file inputFile
}

// ReadAt implements io.ReaderAt.
func (o objectAt) ReadAt(b []byte, at int64) (int, error) {
	if at >= o.file.Size {
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), o.file.Size-at)]
	r, err := o.file.object(o.ctx, at, int64(len(want)))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	n, err := io.ReadFull(r, want)
	if err != nil {
		return n, bucketFault("read", o.file.Name, err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
