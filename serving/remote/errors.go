package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
)

// unreachable is the error of a request that has no answer.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the model's server has not responded: %w", ctx.Err())
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
		status = http.StatusServiceUnavailable
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		status = http.StatusGatewayTimeout
	}
	return &oip.Error{Status: status, Message: fmt.Sprintf("the model's server answers %s: %s", resp.Status, said(resp.Body))}
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
