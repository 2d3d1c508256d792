package kservetest

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"

	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/tritontest"
)

// predictor stands for the pods of an InferenceService: a server of the Open Inference Protocol with one model.
type predictor struct {
	server *httptest.Server
	model  gateway.Upstream
}

func (p *predictor) close() {
	p.server.Close()
	_ = p.model.Close()
}

// start does what the pod does: its storage initializer fetches the model, its server loads it.
func start(ctx context.Context, name, uri string) (*predictor, error) {
	dir, err := os.MkdirTemp("", "mnt-models-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := initialize(ctx, uri, dir); err != nil {
		return nil, err
	}
	loaded, err := tritontest.Load(dir, name)
	if err != nil {
		return nil, err
	}
	p := &predictor{model: loaded}
	p.server = httptest.NewServer(servingtest.Routes(name, p.model))
	return p, nil
}

// initialize fetches every object whose key begins as the address says, as KServe does, even into the middle of a name.
func initialize(ctx context.Context, uri, dir string) error {
	at, err := objectstore.Parse(uri)
	if err != nil {
		return err
	}
	bucket, err := cloud.Open(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = bucket.Close() }() // only read from
	objects := bucket.List(&blob.ListOptions{Prefix: at.Path})
	for n := 0; ; n++ {
		object, err := objects.Next(ctx)
		if err == io.EOF && n > 0 { //nolint:errorlint // as its documentation says
			return nil
		}
		if err != nil {
			return fmt.Errorf("no model found in %s: %w", at.Path, err)
		}
		content, err := bucket.ReadAll(ctx, object.Key)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, strings.TrimLeft(strings.TrimPrefix(object.Key, at.Path), "/"))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
}
