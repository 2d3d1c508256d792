package triton

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/plan"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/tritontest"
	"github.com/sluiceml/sluice/store"
)

// gatewayVariable makes the test program a gateway: of a store, on a Triton and its repository.
const gatewayVariable = "SLUICE_TEST_TRITON_GATEWAY"

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(gatewayVariable)); len(args) == 3 {
		if err := gatewayMain(args[0], args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// gatewayMain serves until its input ends.
func gatewayMain(storeURL, server, repository string) error {
	s, err := store.Open(context.Background(), storeURL)
	if err != nil {
		return err
	}
	t := spec.DefaultsOf[spec.TritonTarget]()
	t.Server, t.Repository = server, repository
	g, err := Serve(context.Background(), s, servingtest.Name, t, gateway.Ports{}, "", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Println(g.URL())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return g.Close(context.Background())
}

// site is a Triton with its repository, and a store.
type site struct {
	t     *testing.T
	store *store.Store
	spec  spec.TritonTarget
	*tritontest.Server
}

func newSite(t *testing.T, s *store.Store) *site {
	t.Helper()
	here := &site{t: t, store: s, spec: spec.DefaultsOf[spec.TritonTarget]()}
	here.spec.Repository = t.TempDir()
	here.Server = tritontest.Start(t, here.spec.Repository)
	here.spec.Server = here.URL
	return here
}

func (s *site) serve(ports gateway.Ports) *gateway.Server {
	s.t.Helper()
	server, err := Serve(s.t.Context(), s.store, servingtest.Name, s.spec, ports, "", slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	return server
}

// releases are those of a target in a hurry, without a gateway.
func (s *site) releases() *releases {
	return &releases{
		store: s.store, target: servingtest.Name, spec: s.spec, control: newControl(s.spec.Server), repository: openRepository(s.spec.Repository),
		log: slog.New(slog.DiscardHandler), lease: gateway.Lease,
	}
}

// owner is the store's identity.
func (s *site) owner() string {
	s.t.Helper()
	owner, err := s.store.Identity(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return owner
}

// name is what a version is called on Triton.
func (s *site) name(version string) string {
	return servingtest.Name + "-" + s.owner() + "-v" + version
}

func (s *site) model(files map[string]string, meta map[string]string) artifact.Ref {
	s.t.Helper()
	dir := s.t.TempDir()
	for at, content := range files {
		if err := os.WriteFile(filepath.Join(dir, at), []byte(content), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	ref, err := s.store.PutTree(s.t.Context(), artifact.Model, dir, meta, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// onnx is a model artifact.
func (s *site) onnx(name string) artifact.Ref {
	s.t.Helper()
	return s.model(map[string]string{"net.onnx": content(s.t, name), "words.txt": "a b"}, nil)
}

// engine is a model artifact: an engine whose input a front makes.
func (s *site) engine(built string) artifact.Ref {
	s.t.Helper()
	hits := []oip.TensorMetadata{{Name: "hits", Datatype: oip.FP32, Shape: []int64{-1, -1}}}
	engine := plan.Engine{
		GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15", TensorRT: "10.3.0", Precision: "fp16",
		Inputs: hits, Outputs: []oip.TensorMetadata{{Name: "probabilities", Datatype: oip.FP32, Shape: []int64{-1, 2}}}, MaxBatch: 4,
		Front: &plan.Front{Inputs: []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}, Outputs: hits},
	}
	return s.model(map[string]string{plan.File: built, plan.FrontFile: content(s.t, onnxtest.WordsFront)}, engine.Meta())
}

// publish writes a release to the repository.
func (s *site) publish(r *releases, version string, model artifact.Ref) {
	s.t.Helper()
	m, err := r.model(s.t.Context(), routing.Release{Version: version, Model: model})
	if err == nil {
		err = r.repository.publish(s.t.Context(), s.store, m)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(onnxtest.Folder(t, name), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// tree lists the files of the repository.
func (s *site) tree() []string {
	s.t.Helper()
	var files []string
	err := filepath.WalkDir(s.spec.Repository, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			at, _ := filepath.Rel(s.spec.Repository, path)
			files = append(files, strings.ReplaceAll(at, s.owner(), "OWNER"))
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// open opens a release, and closes it with the test.
func (s *site) open(r *releases, version string, model artifact.Ref) (gateway.Upstream, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	upstream, err := r.open(ctx, routing.Release{Version: version, Model: model, Run: "r", Step: "ship"}, func(string) {})
	if err == nil {
		s.t.Cleanup(func() { _ = upstream.Close() })
	}
	return upstream, err
}

func (s *site) mustOpen(version string, model artifact.Ref) gateway.Upstream {
	s.t.Helper()
	upstream, err := s.open(s.releases(), version, model)
	if err != nil {
		s.t.Fatal(err)
	}
	return upstream
}

// folder makes a folder in the repository, with a marker unless that is empty.
func (s *site) folder(name, marker string) {
	s.t.Helper()
	dir := filepath.Join(s.spec.Repository, name)
	err := os.MkdirAll(filepath.Join(dir, "1"), 0o700)
	if err == nil && marker != "" {
		err = os.WriteFile(filepath.Join(dir, ".sluice.json"), []byte(marker), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// download brings a model from a bucket to a folder.
func download(t *testing.T, from store.Driver, name, dir string) {
	for info, err := range from.List(t.Context(), name+"/") {
		var r io.ReadCloser
		if err == nil {
			r, err = from.Read(t.Context(), info.Key)
		}
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(r)
			_ = r.Close()
		}
		to := filepath.Join(dir, info.Key)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, raw, 0o600)
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}
