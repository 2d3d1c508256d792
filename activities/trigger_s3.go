package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

const (
	// listTime bounds one look at a bucket. It is shorter than what the workflow gives the look, so that the look can say why it ended.
	listTime = 45 * time.Second
	// dialTime is how long an endpoint may take to be there; it is tried three times.
	dialTime = 5 * time.Second
	// maxPage bounds one answer of a server, which is about 1,000 objects at most.
	maxPage = 16 << 20
	// usualRegion is what servers other than AWS's go by when they are not told another.
	usualRegion = "us-east-1"
)

// listBucket lists a folder of a bucket. Keys that end in a slash stand for folders and do not count.
func listBucket(ctx context.Context, spec dsl.DataTrigger) (sightings, error) {
	at, err := dsl.ParseBucket(spec.URL)
	if err != nil {
		return nil, contract.Error(contract.ErrInvalid, fmt.Sprintf("%s cannot be watched: %v", spec.URL, err), err)
	}
	within, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	found := sightings{}
	err = eachObject(within, at, func(o types.Object) error {
		key := aws.ToString(o.Key)
		if strings.HasSuffix(key, "/") || !matches(spec.Glob, strings.TrimPrefix(key, at.Prefix)) {
			return nil
		}
		version := fmt.Sprintf("%s-%d-%d", strings.Trim(aws.ToString(o.ETag), `"`), aws.ToInt64(o.Size), aws.ToTime(o.LastModified).UnixNano())
		return found.add("s3://"+at.Name+"/"+key, version)
	})
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case within.Err() != nil:
		err = fmt.Errorf("it took longer than %s: watch a folder with fewer objects in it", human.Duration(listTime))
	}
	f := faultOf(at, err)
	return nil, contract.Error(f.typ, fmt.Sprintf("look at %s: %s", spec.URL, f.why), err)
}

// eachObject goes over the objects in a folder of a bucket, in the order of their keys.
func eachObject(ctx context.Context, at dsl.Bucket, do func(types.Object) error) error {
	bucket, done, err := openBucket(ctx, at)
	if err != nil {
		return err
	}
	defer done()
	objects := bucket.List(&blob.ListOptions{Prefix: at.Prefix})
	for {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var raw types.Object // which has the key as S3 has it, and its ETag
		if !o.As(&raw) {
			return fmt.Errorf("%s is listed as something else than an object of S3", o.Key)
		}
		if err := do(raw); err != nil {
			return err
		}
	}
}

// openBucket opens a bucket by what AWS's own tools go by: environment variables, profiles, the machine's role. Call done at the end.
func openBucket(ctx context.Context, at dsl.Bucket) (bucket *blob.Bucket, done func(), err error) {
	dial := awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTime })
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(dial), config.WithRegion(at.Region))
	if err != nil {
		return nil, nil, fault{contract.ErrInvalid, fmt.Sprintf("the worker's AWS configuration cannot be used: %s", excerpt(err.Error()))}
	}
	web, err := newPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if at.Endpoint != "" {
			o.BaseEndpoint = &at.Endpoint
		}
		if o.BaseEndpoint != nil {
			o.UsePathStyle, o.Region = true, cmp.Or(o.Region, usualRegion)
		}
		o.HTTPClient = web
	})
	if client.Options().Region == "" {
		return nil, nil, fault{contract.ErrInvalid, "its region is not known: write ?region=eu-central-1, or set AWS_REGION for the worker"}
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, nil, fault{contract.ErrInfrastructure, fmt.Sprintf("the worker has no AWS credentials: set AWS_ACCESS_KEY_ID and "+
			"AWS_SECRET_ACCESS_KEY for it, or AWS_PROFILE, or give its machine a role (%s)", excerpt(err.Error()))}
	}
	bucket, err = s3blob.OpenBucket(ctx, client, at.Name, nil)
	if err != nil {
		return nil, nil, err
	}
	return bucket, func() {
		bucket.Close() //nolint:errcheck // it was only read
		web.CloseIdleConnections()
	}, nil
}

// pages gets the answers of an S3 server. It cuts off what no such server says before that fills the memory, goes nowhere else, and does
// not take just any page for an empty list, as the SDK does.
type pages struct{ http.Client }

func newPages(cfg aws.Config) (*pages, error) {
	web, ok := cfg.HTTPClient.(*awshttp.BuildableClient) // which knows AWS_CA_BUNDLE
	if !ok {
		return nil, fmt.Errorf("AWS's configuration has a %T", cfg.HTTPClient)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &pages{http.Client{Transport: web.GetTransport(), CheckRedirect: stay}}, nil
}

// Do is http.Client's.
func (p *pages) Do(req *http.Request) (*http.Response, error) {
	resp, err := p.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusOK && !strings.Contains(kind, "xml") {
		resp.Body.Close()
		return nil, fault{contract.ErrInfrastructure, fmt.Sprintf("%s does not answer as an S3 server does: is the endpoint right?", req.URL.Host)}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxPage), resp.Body}
	return resp, nil
}

// fault is what is wrong with a bucket, of one of contract's types.
type fault struct{ typ, why string }

func (f fault) Error() string { return f.why }

// faultOf says what an error of the SDK means for whoever wrote the trigger.
func faultOf(at dsl.Bucket, err error) fault {
	var known fault
	if errors.As(err, &known) {
		return known
	}
	var unsent *smithyhttp.RequestSendError
	if errors.As(err, &unsent) {
		return fault{contract.ErrInfrastructure, fmt.Sprintf("no answer from %s (%s): is it right, and reachable from the worker's machine?",
			cmp.Or(at.Endpoint, "S3"), excerpt(unsent.Err.Error()))}
	}
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusMultipleChoices {
		if region := answer.Response.Header.Get("X-Amz-Bucket-Region"); region != "" && region != at.Region {
			return fault{contract.ErrInvalid, fmt.Sprintf("the bucket is in the region %s: write ?region=%[1]s", excerpt(region))}
		}
	}
	var said smithy.APIError
	if !errors.As(err, &said) {
		return fault{contract.ErrInfrastructure, excerpt(err.Error())}
	}
	answered := excerpt(cmp.Or(said.ErrorMessage(), said.ErrorCode()))
	switch code := said.ErrorCode(); code {
	case "NoSuchBucket", "NotFound":
		return fault{contract.ErrInvalid, fmt.Sprintf("there is no bucket %s", at.Name)}
	case "AccessDenied", "Forbidden", "AllAccessDisabled":
		return fault{contract.ErrInvalid, fmt.Sprintf("the worker's AWS credentials may not list it: allow them s3:ListBucket (%s)", answered)}
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return fault{contract.ErrInvalid, fmt.Sprintf("the worker's AWS credentials are refused as %s (%s)", code, answered)}
	case "PermanentRedirect", "AuthorizationHeaderMalformed":
		return fault{contract.ErrInvalid, fmt.Sprintf("the bucket is in another region: write ?region= (%s)", answered)}
	default:
		return fault{contract.ErrInfrastructure, fmt.Sprintf("%s: %s", excerpt(code), answered)}
	}
}

// excerpt is one line of what a server or the SDK said.
func excerpt(said string) string {
	const most = 300
	line := []rune(human.Line(said))
	if len(line) > most {
		line = append(line[:most], '…')
	}
	return string(line)
}
