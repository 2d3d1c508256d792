package oip

import (
	"context"
	"net/http"
	"strings"
)

// Call is what a request says of itself, for the server that a gateway hands it on to.
type Call struct {
	ID string
	// TraceParent and TraceState are the headers of W3C Trace Context, as they came.
	TraceParent, TraceState string
}

const (
	traceParentHeader = "Traceparent"
	traceStateHeader  = "Tracestate"
	maxTrace          = 1024 // bytes of a header; Trace Context asks for 512 to be handed on
)

// CallOf reads the call of a request.
func CallOf(id string, header http.Header) Call {
	c := Call{ID: id, TraceParent: header.Get(traceParentHeader), TraceState: header.Get(traceStateHeader)}
	if c.TraceParent == "" || len(c.TraceParent) > maxTrace || len(c.TraceState) > maxTrace {
		c.TraceParent, c.TraceState = "", ""
	}
	return c
}

// TraceID is the ID of the call's trace, 32 digits; empty where there is none.
func (c Call) TraceID() string {
	parts := strings.Split(c.TraceParent, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isHex(parts[0]) || len(parts[1]) != 32 || !isHex(parts[1]) {
		return ""
	}
	return parts[1]
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// SetHeader hands the call's trace on.
func (c Call) SetHeader(h http.Header) {
	if c.TraceParent == "" {
		return
	}
	h.Set(traceParentHeader, c.TraceParent)
	if c.TraceState != "" {
		h.Set(traceStateHeader, c.TraceState)
	}
}

type callKey struct{}

// WithCall returns a context of the call.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the call of a context; it is empty where there is none.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}
