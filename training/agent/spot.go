package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training/protocol"
)

// spotEvery is the polling interval that AWS recommends.
const spotEvery = 5 * time.Second

// hearSpot polls EC2's metadata service for the interruption notice, and writes it to the notice file, as other pools do. A rebalance
// recommendation is only shown to people: it says that an interruption is more likely than before, which may come hours later, or never.
func (n *node) hearSpot(ctx context.Context, address string, every time.Duration) {
	service := metadataService(address)
	for range poll.Every(ctx, every) {
		err := n.hearRebalance(ctx, service)
		notice, noticeErr := interruption(ctx, service)
		err = cmp.Or(noticeErr, err)
		if notice != nil {
			err = protocol.WriteFile(filepath.Join(n.config.Dir, protocol.NoticeFile), notice)
		}
		switch {
		case ctx.Err() != nil || notice != nil && err == nil:
			return
		case err != nil:
			n.log.Warn("the instance's notice could not be read", "error", err)
			service = metadataService(address) // the client does not notice if its session ends early
		}
	}
}

// metadataService returns a client of the service at address. It only uses version 2 of the protocol, whatever AWS's variables say.
func metadataService(address string) *imds.Client {
	return imds.New(imds.Options{
		Endpoint: address, ClientEnableState: imds.ClientEnabled, EnableFallback: aws.FalseTernary,
		// Never use a proxy: the service identifies the instance by who connects.
		HTTPClient: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}},
	})
}

// hearRebalance records, once, that EC2 recommends moving off the instance.
func (n *node) hearRebalance(ctx context.Context, service *imds.Client) error {
	n.mu.Lock()
	known := !n.rebalance.IsZero()
	n.mu.Unlock()
	if known {
		return nil
	}
	var said struct {
		NoticeTime time.Time `json:"noticeTime"`
	}
	if told, err := metadata(ctx, service, "events/recommendations/rebalance", &said); err != nil || !told {
		return err
	}
	n.log.Warn("EC2 recommends to rebalance: an interruption of this instance is likelier than before", "since", said.NoticeTime)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rebalance = said.NoticeTime
	return nil
}

// interruption returns the notice that the instance will be interrupted; nil if there is none.
func interruption(ctx context.Context, service *imds.Client) (*protocol.NodeNotice, error) {
	var said struct {
		Time time.Time `json:"time"`
	}
	if told, err := metadata(ctx, service, "spot/instance-action", &said); err != nil || !told {
		return nil, err
	}
	return &protocol.NodeNotice{Until: said.Time}, nil
}

// metadata decodes what the service has under a path, and reports whether it has anything.
func metadata(ctx context.Context, service *imds.Client, path string, said any) (bool, error) {
	answer, err := service.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.HTTPStatusCode() == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("instance metadata: %w", err)
	}
	defer answer.Content.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Content, 64<<10)).Decode(said); err != nil {
		return false, fmt.Errorf("instance metadata: %s: %w", path, err)
	}
	return true, nil
}
