package gateway

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
)

// LabelHeader returns the Authorization header of requests with a label, for a gateway with this LabelKey.
func LabelHeader(key string) string { return "Bearer " + key }

// mayLabel refuses labels of senders without the key: labels decide whether a release is kept.
func (g *Gateway) mayLabel(header http.Header, parameters map[string]any) error {
	scheme, key, _ := strings.Cut(header.Get("Authorization"), " ")
	isKey := strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(key), []byte(g.opts.LabelKey)) == 1
	if parameters["label"] == nil || g.opts.LabelKey == "" || isKey {
		return nil
	}
	return &oip.Error{Status: http.StatusUnauthorized, Message: "parameters.label affects releases, so it is only accepted with the header" +
		" `Authorization: Bearer KEY`; KEY is in the file label.key in Sluice's state folder. Send the key, or no label"}
}
