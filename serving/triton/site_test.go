package triton

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
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
	goleak.VerifyTestMain(stopping{m})
}

// stopping runs the tests, and ends the Triton that they have in common.
type stopping struct{ *testing.M }

func (m stopping) Run() int {
	code := m.M.Run()
	if common.Server != nil {
		common.Stop()
		_ = os.RemoveAll(common.repository) // it is a temporary folder
	}
	return code
}

// common is a Triton for all tests but those that stop it, or need another: what it has to do with a test is told by the store's identity in
// the names of the models.
var common struct {
	*tritontest.Server
	repository string
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

// newSite is a site on the common Triton.
func newSite(t *testing.T, s *store.Store) *site {
	t.Helper()
	if common.Server == nil {
		dir, err := os.MkdirTemp("", "sluice-triton-") //nolint:usetesting // it outlives the test
		if err != nil {
			t.Fatal(err)
		}
		server, err := tritontest.Launch(context.Background(), tritontest.Options{Repository: dir})
		if err != nil {
			os.RemoveAll(dir)
		}
		if errors.Is(err, tritontest.ErrMissing) {
			rig.Skip(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		common.Server, common.repository = server, dir
	}
	here := siteOf(t, s, common.Server, common.repository)
	t.Cleanup(func() {
		for _, name := range here.loaded() {
			if err := here.Unload(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
		for _, name := range here.folders() {
			os.RemoveAll(filepath.Join(common.repository, name))
		}
	})
	return here
}

// newSiteAlone is a site on a Triton of its own.
func newSiteAlone(t *testing.T, s *store.Store, o tritontest.Options) *site {
	t.Helper()
	if o.Repository == "" {
		o.Repository = t.TempDir()
	}
	return siteOf(t, s, tritontest.Start(t, o), o.Repository)
}

func siteOf(t *testing.T, s *store.Store, server *tritontest.Server, repository string) *site {
	t.Helper()
	here := &site{t: t, store: s, spec: spec.DefaultsOf[spec.TritonTarget](), Server: server}
	here.spec.Server, here.spec.Repository = server.URL, repository
	return here
}

// loaded lists the models of the store that Triton has ready.
func (s *site) loaded() []string {
	s.t.Helper()
	names, err := s.Loaded(context.Background()) // also when the test is over
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, s.owner()) })
}

// folders lists what is in the repository of the store's models, whole or not.
func (s *site) folders() []string {
	s.t.Helper()
	entries, err := os.ReadDir(s.spec.Repository)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if strings.Contains(entry.Name(), s.owner()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// harness is for the conformance suite. folders lists what is in the repository.
func (s *site) harness(t *testing.T, folders func() []string) servingtest.Harness {
	t.Helper()
	h := servingtest.Open(t, s.store, s.serve)
	h.Loaded = func() []string {
		there := append(s.loaded(), folders()...)
		for i, name := range there {
			there[i] = strings.TrimPrefix(name, s.name(""))
		}
		slices.Sort(there)
		return slices.Compact(there)
	}
	return h
}

func (s *site) serveAt(ports gateway.Ports) (*gateway.Server, error) {
	return Serve(s.t.Context(), s.store, servingtest.Name, s.spec, ports, "", slog.New(slog.DiscardHandler))
}

func (s *site) serve(ports gateway.Ports) *gateway.Server {
	s.t.Helper()
	server, err := s.serveAt(ports)
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
	owner, err := s.store.Identity(context.WithoutCancel(s.t.Context()))
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
	engine := layout.Engine{
		GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15", TensorRT: "10.3.0", Precision: "fp16",
		Inputs: hits, Outputs: []oip.TensorMetadata{{Name: "probabilities", Datatype: oip.FP32, Shape: []int64{-1, 2}}}, MaxBatch: 4,
		Front: &layout.Front{Inputs: []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}, Outputs: hits},
	}
	return s.model(map[string]string{layout.EngineFile: built, layout.FrontFile: content(s.t, onnxtest.WordsFront)}, engine.Meta())
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

// tree lists the files of the store's models in the repository.
func (s *site) tree() []string {
	s.t.Helper()
	var files []string
	err := filepath.WalkDir(s.spec.Repository, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of another test
		}
		at, _ := filepath.Rel(s.spec.Repository, path)
		if err == nil && !entry.IsDir() && strings.Contains(at, s.owner()) {
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

// mustOpenAndClose leaves a release on Triton that no gateway keeps there.
func (s *site) mustOpenAndClose(version string, model artifact.Ref) {
	s.t.Helper()
	if err := s.mustOpen(version, model).Close(); err != nil {
		s.t.Fatal(err)
	}
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

// again starts a Triton that was stopped.
func (s *site) again() {
	s.t.Helper()
	if err := s.Again(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// spam is the input of a request.
var spam = []oip.Tensor{{Name: "text", Shape: []int64{1}, Data: []string{"spam"}}}

func (s *site) spam(upstream gateway.Upstream) error {
	_, err := upstream.Infer(s.t.Context(), spam)
	return err
}

// keepFile is the object for which there is a folder.
const keepFile = "keep"

// inBucket is a model repository in a bucket.
type inBucket struct {
	store.Driver
	address, asTriton string
}

func newBucket(t *testing.T) *inBucket {
	t.Helper()
	server := s3test.Start(t, "models", s3test.Options{})
	b := &inBucket{address: server.At("triton"), asTriton: "s3://" + server.URL + "/models/triton"}
	s, err := store.Open(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	b.Driver = s.Driver()
	// Triton does not start on a folder of a bucket in which there is nothing.
	if err := b.Write(t.Context(), keepFile, strings.NewReader(""), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRITON_AWS_MOUNT_DIRECTORY", t.TempDir()) // for what it has fetched, which it leaves when it is killed
	return b
}

func (b *inBucket) keys(t *testing.T) (keys []string) {
	t.Helper()
	for info, err := range b.List(context.WithoutCancel(t.Context()), "") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != keepFile {
			keys = append(keys, info.Key)
		}
	}
	return keys
}
