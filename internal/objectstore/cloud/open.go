// Package cloud opens buckets, and says what their servers' errors mean. Credentials are found as the clouds' own tools find them: in
// environment variables, profiles, or by the machine's role.
package cloud

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"

	"github.com/sluiceml/sluice/internal/objectstore"
)

const (
	// dialTime is how long a server may take to be there; it is tried three times.
	dialTime = 5 * time.Second
	// answerTime is how long a server may take to begin its answer.
	answerTime = 30 * time.Second
	// idle is how many connections are kept for the next requests: about as many as the engine makes at once.
	idle = 100
	// usualRegion is what servers other than AWS's go by when they are not told another.
	usualRegion = "us-east-1"
)

// Open opens a bucket. It asks the bucket nothing yet, and outlives ctx.
func Open(ctx context.Context, a objectstore.Address) (*blob.Bucket, error) {
	ctx = context.WithoutCancel(ctx)
	if a.Scheme == objectstore.Google {
		return openGoogle(ctx, a)
	}
	client, err := S3(ctx, a)
	if err != nil {
		return nil, err
	}
	return s3blob.OpenBucket(ctx, client, a.Name, nil)
}

// S3 makes a client for a bucket in S3. An error is a *Fault.
func S3(ctx context.Context, a objectstore.Address, options ...func(*s3.Options)) (*s3.Client, error) {
	web := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTime }).
		WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout, t.MaxIdleConns, t.MaxIdleConnsPerHost = answerTime, idle, idle
		})
	load := []func(*config.LoadOptions) error{ // what the SDK would write to standard error is in the error, too
		config.WithHTTPClient(web), config.WithRegion(a.Region), config.WithLogger(logging.Nop{}),
	}
	if a.Anonymous {
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, invalid(err, "the AWS configuration cannot be used: %s", excerpt(err.Error()))
	}
	client := s3.NewFromConfig(cfg, append(options, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, retryParts)
		o.DisableLogOutputChecksumValidationSkipped = true // of what was written in parts there is none, and readers have their own
		if a.Endpoint != "" {
			o.BaseEndpoint = &a.Endpoint
		}
		if o.BaseEndpoint != nil { // not every server has a host name for each bucket
			o.UsePathStyle, o.Region = true, cmp.Or(o.Region, usualRegion)
		}
	})...)
	if client.Options().Region == "" {
		return nil, invalid(nil, "its region is not known: write ?region=eu-central-1, or set AWS_REGION")
	}
	if a.Anonymous {
		return client, nil
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, &Fault{Why: fmt.Sprintf("there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "+
			"AWS_PROFILE, or attach a role to the machine (%s)", excerpt(err.Error())), err: err}
	}
	return client, nil
}

// emulator names the variable by which Google's own library finds another server than Google's.
const emulator = "STORAGE_EMULATOR_HOST"

func openGoogle(ctx context.Context, a objectstore.Address) (*blob.Bucket, error) {
	client := gcp.NewAnonymousHTTPClient(gcp.DefaultTransport())
	if !a.Anonymous && os.Getenv(emulator) == "" {
		credentials, err := gcp.DefaultCredentials(ctx)
		if err == nil {
			client, err = gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.CredentialsTokenSource(credentials))
		}
		if err != nil {
			return nil, &Fault{Why: fmt.Sprintf("there are no Google Cloud credentials: run `gcloud auth application-default login`, set "+
				"GOOGLE_APPLICATION_CREDENTIALS, or attach a service account to the machine (%s)", excerpt(err.Error())), err: err}
		}
	}
	return gcsblob.OpenBucket(ctx, client, a.Name, nil)
}
