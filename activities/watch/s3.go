package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

const (
	// listTime bounds one look at a bucket. It is shorter than what the workflow gives the look, so that the look can say why it ended.
	listTime = 45 * time.Second
	// maxPage bounds one answer of a server, which is about 1,000 objects at most.
	maxPage = 16 << 20
)

// listBucket lists a folder of a bucket. Keys that end in a slash stand for folders and do not count.
func listBucket(ctx context.Context, spec spec.DataTrigger) (sightings, error) {
	at, err := objectstore.ParseFolder(spec.URL)
	if err != nil {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("%s cannot be watched: %v", spec.URL, err), err)
	}
	within, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	found := sightings{}
	err = eachObject(within, at, func(o types.Object) error {
		key := aws.ToString(o.Key)
		if strings.HasSuffix(key, "/") || !matches(spec.Glob, strings.TrimPrefix(key, at.Path)) {
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
		err = fmt.Errorf("it took longer than %s: watch a folder with fewer objects", human.Duration(listTime))
	}
	why, typ := cloud.Explain(at, err), fault.Infrastructure
	if why.Invalid {
		typ = fault.Invalid
	}
	return nil, fault.New(typ, fmt.Sprintf("look at %s: %s", spec.URL, why.Why), err)
}

// eachObject goes over the objects in a folder of a bucket, in the order of their keys.
func eachObject(ctx context.Context, at objectstore.Address, do func(types.Object) error) error {
	opened, done, err := openBucket(ctx, at)
	if err != nil {
		return err
	}
	defer done()
	objects := opened.List(&blob.ListOptions{Prefix: at.Path})
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
			return fmt.Errorf("%s is not listed as an S3 object", o.Key)
		}
		if err := do(raw); err != nil {
			return err
		}
	}
}

// openBucket opens a bucket that only lists are asked of. Call done at the end.
func openBucket(ctx context.Context, at objectstore.Address) (opened *blob.Bucket, done func(), err error) {
	web := &pages{}
	client, err := cloud.S3(ctx, at, func(o *s3.Options) {
		web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if known, ok := o.HTTPClient.(*awshttp.BuildableClient); ok { // it knows AWS_CA_BUNDLE
			web.Transport = known.GetTransport()
		}
		o.HTTPClient = web
	})
	if err != nil {
		return nil, nil, err
	}
	opened, err = s3blob.OpenBucket(ctx, client, at.Name, nil)
	if err != nil {
		return nil, nil, err
	}
	return opened, func() {
		opened.Close() //nolint:errcheck // it was only read
		web.CloseIdleConnections()
	}, nil
}

// pages gets the answers of an S3 server. It cuts off what no such server says before that fills the memory, goes nowhere else, and does
// not take just any page for an empty list, as the SDK does.
type pages struct{ http.Client }

// Do is http.Client's.
func (p *pages) Do(req *http.Request) (*http.Response, error) {
	resp, err := p.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusOK && !strings.Contains(kind, "xml") {
		resp.Body.Close()
		return nil, &cloud.Fault{Why: fmt.Sprintf("%s does not answer like an S3 server: is the endpoint correct?", req.URL.Host)}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxPage), resp.Body}
	return resp, nil
}
