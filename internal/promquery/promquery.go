// Package promquery asks Prometheus servers for single numbers.
package promquery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
)

const (
	// timeout bounds one query.
	timeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

// Ask asks the Prometheus server at an address for the one number that a query is about; nil for an empty vector and for NaN,
// which is how Prometheus says that there is nothing to count. The types of errors are those of package fault: what cannot be asked is invalid, and
// what may be answered another time infrastructure.
func Ask(ctx context.Context, base, query string) (*float64, error) {
	failed := func(typ string, err error) error {
		return fault.New(typ, fmt.Sprintf("query `%s` at %s: %v", human.Line(query), base, err), err)
	}
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, failed(fault.Invalid, errors.New("not the address of a Prometheus server: write http://host:9090"))
	}
	client, err := api.NewClient(api.Config{Address: base, Client: &http.Client{Transport: boundedAnswers{}, CheckRedirect: sameHost}})
	if err != nil {
		return nil, failed(fault.Invalid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, _, _, err := prometheus.NewAPI(client).Query(ctx, query, time.Time{})
	if asking, ok := errors.AsType[*url.Error](err); ok {
		err = asking.Err // it says the address again
	}
	said, ok := errors.AsType[*prometheus.Error](err)
	switch {
	case ok && said.Type == prometheus.ErrBadData:
		return nil, failed(fault.Invalid, errors.New(said.Msg))
	case ok && said.Detail != "":
		return nil, failed(fault.Infrastructure, fmt.Errorf("%s: %s", said.Msg, human.Cut(human.Line(said.Detail), 200)))
	case err != nil:
		return nil, failed(fault.Infrastructure, err)
	}
	value := math.NaN()
	switch answer := answer.(type) {
	case *model.Scalar:
		value = float64(answer.Value)
	case model.Vector:
		if len(answer) > 1 {
			return nil, failed(fault.Invalid, fmt.Errorf("the result has %d series, but must have one: wrap the query in max(...) or sum(...)", len(answer)))
		}
		for _, one := range answer {
			value = float64(one.Value)
		}
	default:
		return nil, failed(fault.Invalid, fmt.Errorf("the result is a %s, but must be a scalar or an instant vector", answer.Type()))
	}
	if math.IsNaN(value) {
		return nil, nil
	}
	return &value, nil
}

// sameHost follows redirects on one host alone, so that a server cannot have the worker ask others that only the worker reaches, such as a
// cloud's metadata.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return fmt.Errorf("it redirects to %s: name that address if it is the right one", human.Cut(req.URL.Host, 200))
	}
	if len(via) >= 10 { // as net/http
		return errors.New("it has redirected ten times")
	}
	return nil
}

// boundedAnswers cuts answers off at maxAnswer.
type boundedAnswers struct{}

func (boundedAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}
