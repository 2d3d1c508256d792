package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/trust"
)

// maxRetryAfter bounds what a server may ask clients to wait.
const maxRetryAfter = time.Hour

// Unreachable is the error of a request to a model's server that has no answer. It wraps what ended ctx, if that has ended.
func Unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the model's server has not responded: %w", context.Cause(ctx))
	}
	if why := trust.Reason(err); why != nil {
		return &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's server cannot be trusted: %v", why)}
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // without the address, which is not the client's business
	}
	return &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's server does not respond: %v", err)}
}

// complaint is the error of an answer that is none. A refusal becomes 422 and not 400: the request did fit what the server says of the
// model, so refusing it counts as the release's failure.
func complaint(resp *http.Response) error {
	status := http.StatusBadGateway
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		status = http.StatusUnprocessableEntity
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		status = resp.StatusCode
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		status = http.StatusGatewayTimeout
	}
	return &oip.Error{
		Status: status, Message: fmt.Sprintf("the model's server answers %s: %s", resp.Status, said(resp.Body)), RetryAfter: retryAfterOf(resp.Header),
	}
}

// retryAfterOf reads when the server may be asked again, in seconds or as a date; 0 when it does not say.
func retryAfterOf(header http.Header) time.Duration {
	given := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(given); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(given); err == nil {
		return min(max(time.Until(at), 0).Round(time.Second), maxRetryAfter)
	}
	return 0
}

// said reads the text of an error: of the protocol, of a Python web framework, or as it is.
func said(body io.Reader) string {
	raw, err := io.ReadAll(io.LimitReader(body, maxComplaint))
	if err != nil {
		return err.Error()
	}
	var known struct {
		Error  string `json:"error"`
		Detail any    `json:"detail"`
	}
	switch err := json.Unmarshal(raw, &known); {
	case err == nil && known.Error != "":
		return known.Error
	case err == nil && known.Detail != nil:
		return fmt.Sprint(known.Detail)
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(raw)), "")
}
