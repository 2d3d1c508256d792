package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/oip"
)

// LabelHeader returns the Authorization header of requests with a label, for a gateway with this LabelKey.
func LabelHeader(key string) string { return "Bearer " + key }

// mayLabel refuses labels of callers who may not send any: labels decide whether a release is kept.
func (g *Gateway) mayLabel(ctx context.Context, parameters map[string]any) error {
	if parameters["label"] == nil {
		return nil
	}
	caller := door.CallerOf(ctx)
	if caller.May(door.Label) {
		return nil
	}
	if g.opts.Door.Keyed() {
		return &oip.Error{Status: http.StatusForbidden, Message: fmt.Sprintf("parameters.label affects releases, and %s may not send any:"+
			" use one that allows `label`, or send no label", caller)}
	}
	return &oip.Error{Status: http.StatusUnauthorized, Message: "parameters.label affects releases, so it is only accepted with the header" +
		" `Authorization: Bearer KEY`; KEY is in the file label.key in Sluice's state folder. Send the key, or no label"}
}
