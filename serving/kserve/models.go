package kserve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/store"
)

// server is what InferenceServices may run.
type server struct {
	// runtime is what KServe calls its own of this server.
	runtime string
	// oneModel is set where it wants to be given the folder of one model, not the folder that models are in. A model's folder has a
	// folder for each version, of which there is one.
	oneModel bool
	// engines is set where it runs TensorRT engines.
	engines bool
}

var servers = map[string]server{
	"triton":   {runtime: "kserve-tritonserver", engines: true},
	"openvino": {runtime: "kserve-openvino", oneModel: true},
}

// models are the files of releases in a bucket that KServe can read. An artifact is blobs by digest, which no server of models
// understands, so a release has a copy of its own: serving/<store>/<target>/<version>/<service>/1/model.onnx.
type models struct {
	from   *store.Store
	url    string
	at     objectstore.Address
	server server
}

// planned is a model that is to lie where KServe can read it.
type planned struct {
	folder string // in the bucket
	uri    string
	layout layout.Repository
	// engine says what the model was built on; empty where it is an ONNX model.
	engine string
}

func newModels(s *store.Store, spec spec.KServeTarget) (*models, error) {
	m := &models{from: s, url: spec.Models, server: servers[spec.Server]}
	if m.url == "" {
		m.url = s.URL()
	}
	if !objectstore.IsAddress(m.url) {
		return nil, fmt.Errorf("KServe cannot read models from the store %s: set a bucket for them with `models` of the target", s.URL())
	}
	var err error
	if m.at, err = objectstore.ParseFolder(m.url); err != nil {
		return nil, fmt.Errorf("`models` of the target: %w", err)
	}
	return m, nil
}

func folder(owner, target string) string { return store.ServingPrefix + owner + "/" + target + "/" }

// plan says where the model of a release will lie in the bucket.
func (m *models) plan(ctx context.Context, owner, target, name string, r routing.Release) (planned, error) {
	manifest, err := m.from.Manifest(ctx, r.Model)
	if err != nil {
		return planned{}, err
	}
	p := planned{folder: folder(owner, target) + r.Version + "/"}
	if p.layout, p.engine, err = m.layout(name, manifest); err != nil {
		return planned{}, err
	}
	// The slash at its end matters: KServe takes every object whose key begins with what it is given, and 1 begins 10.
	p.uri = m.at.Root() + m.at.Path + p.folder
	if m.server.oneModel {
		p.uri += name + "/"
	}
	return p, nil
}

// publish copies the model of a release to the bucket, as far as it is not there.
func (m *models) publish(ctx context.Context, p planned) error {
	to, err := m.open(ctx)
	if err != nil {
		return err
	}
	for at, file := range p.layout.Files {
		if err := m.copy(ctx, to, p.folder+at, file); err != nil {
			return fmt.Errorf("copy the model to %s: %w", m.at.Root(), err)
		}
	}
	for at, text := range p.layout.Texts {
		if err := to.Write(ctx, p.folder+at, bytes.NewReader(text), store.WriteOptions{}); err != nil {
			return fmt.Errorf("copy the model to %s: %w", m.at.Root(), err)
		}
	}
	return nil
}

// open returns the bucket. It is the store's own, or one that is used as if it was a store.
func (m *models) open(ctx context.Context) (store.Driver, error) {
	if m.url == m.from.URL() {
		return m.from.Driver(), nil
	}
	s, err := store.Open(ctx, m.url)
	if err != nil {
		return nil, fmt.Errorf("`models` of the target: %w", err)
	}
	return s.Driver(), nil
}

func (m *models) copy(ctx context.Context, to store.Driver, key string, file artifact.File) error {
	if there, err := to.Stat(ctx, key); err == nil && there.Bytes == file.Bytes {
		return nil // objects appear whole, and of a version there is one model
	}
	blob, err := m.from.Blob(ctx, file.Digest)
	if err != nil {
		return err
	}
	defer blob.Close()
	return to.Write(ctx, key, blob, store.WriteOptions{})
}

// remove deletes the copies of versions that were dropped.
func (m *models) remove(ctx context.Context, owner, target string, dropped func(version string) bool) error {
	from, err := m.open(ctx)
	if err != nil {
		return err
	}
	of := folder(owner, target)
	var doomed []string
	for info, err := range from.List(ctx, of) {
		if err != nil {
			return err
		}
		if version, _, _ := strings.Cut(strings.TrimPrefix(info.Key, of), "/"); dropped(version) {
			doomed = append(doomed, info.Key)
		}
	}
	for _, key := range doomed {
		if err := from.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// layout says where the files of a model lie, below the folder that models are in. Of an engine it says what that was built on.
func (m *models) layout(name string, manifest artifact.Manifest) (r layout.Repository, engine string, err error) {
	if !layout.IsEngine(manifest) {
		r, err = layout.ONNX(name, manifest)
		return r, "", err
	}
	if !m.server.engines {
		return r, "", errors.New("the model is a TensorRT engine, which OpenVINO Model Server cannot load: give the target " +
			"`server: triton`, or release an `onnx` variant of the compile step")
	}
	if r, err = layout.TensorRT(name, manifest); err != nil {
		return r, "", err
	}
	e, err := layout.DescribeEngine(manifest)
	return r, e.BuiltOn(), err
}
