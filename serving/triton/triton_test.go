package triton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/proctest"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/serving/triton/tritontest"
	"github.com/sluiceml/sluice/store"
)

func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		here := newSite(t, s)
		return here.harness(t, here.folders)
	})
}

// TestConformanceInBucket: the same with a repository in a bucket, which Triton reads itself.
func TestConformanceInBucket(t *testing.T) {
	b := newBucket(t)
	server := tritontest.Start(t, tritontest.Options{Repository: b.asTriton})
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		here := siteOf(t, s, server, b.address)
		return here.harness(t, func() (names []string) {
			for _, key := range b.keys(t) {
				if name, _, _ := strings.Cut(key, "/"); strings.Contains(name, here.owner()) {
					names = append(names, name)
				}
			}
			return names
		})
	})
}

// TestWritten: a release is a model of its own, whole, which answers by its own name.
func TestWritten(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	here.spec.MaxBatch = 2
	answering := here.mustOpen("3", here.onnx(onnxtest.MLP))
	want := []string{
		"spam-filter-OWNER-v3/.sluice.json", "spam-filter-OWNER-v3/1/model.onnx", "spam-filter-OWNER-v3/1/words.txt", "spam-filter-OWNER-v3/config.pbtxt",
	}
	if diff := cmp.Diff(want, here.tree()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(here.spec.Repository, here.name("3"), "config.pbtxt"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := tritontest.Parse(text)
	if err != nil || config.Name != here.name("3") || config.Platform != "onnxruntime_onnx" || config.MaxBatchSize != 2 || config.DefaultModelFilename != "model.onnx" {
		t.Errorf("%+v, %v", config, err)
	}
	rows := func(n int64) error {
		_, err := answering.Infer(t.Context(), []oip.Tensor{{Name: "x", Shape: []int64{n, 16}, Data: make([]float32, n*16)}})
		return err
	}
	if err := rows(2); err != nil {
		t.Error(err)
	}
	if err := rows(3); err == nil || !strings.Contains(err.Error(), "batch-size must be <= 2") {
		t.Errorf("three rows: %v", err)
	}
}

// TestStays: what is there of a release stays as it was written when the target gets another max_batch.
func TestStays(t *testing.T) {
	for _, open := range []func(dir string) repository{
		func(dir string) repository { return folder(dir) },
		func(dir string) repository { return bucket("file://" + dir) },
	} {
		here := newSite(t, servingtest.NewStore(t))
		r, model := here.releases(), here.onnx(onnxtest.Text)
		r.repository = open(here.spec.Repository)
		var written string
		for _, r.spec.MaxBatch = range []int{0, 8, 16} {
			here.publish(r, "1", model)
			text, err := os.ReadFile(filepath.Join(here.spec.Repository, here.name("1"), "config.pbtxt"))
			if err != nil {
				t.Fatal(err)
			}
			if written == "" {
				written = string(text)
			}
			if diff := cmp.Diff(written, string(text)); diff != "" {
				t.Errorf("max_batch %d, %T (-written +found):\n%s", r.spec.MaxBatch, r.repository, diff)
			}
		}
	}
}

// TestFailures: what stands in the way is said in Triton's words, and what to do; and nothing is loaded.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		alone *tritontest.Options // for a Triton of its own
		where func(*site)
		says  []string
		wrote bool // there is something in the repository, until the release is dropped
	}{
		"no model": {files: map[string]string{"model.onnx": "no model"}, wrote: true, says: []string{
			"the Triton server refuses: it answers 400 Bad Request: load failed for model 'spam-filter-", "Protobuf parsing failed",
		}},
		"rows that cannot be joined": {
			where: func(s *site) { s.spec.MaxBatch = 8 }, files: map[string]string{"model.onnx": content(t, onnxtest.Loop)}, wrote: true,
			says: []string{"model does not support batching"},
		},
		"no control mode": {alone: &tritontest.Options{Mode: "none"}, says: []string{
			"Triton server does not load models on request: start it with --model-control-mode=explicit", "explicit model load / unload is not allowed",
		}},
		"polling": {alone: &tritontest.Options{Mode: "poll"}, says: []string{"Triton server does not load models on request"}},
		"locked": {
			alone: &tritontest.Options{Args: []string{"--http-restricted-api=model-repository:key=value"}},
			says:  []string{"the Triton server refuses: it answers 403 Forbidden: This API is restricted, expecting header 'key'"},
		},
		"another server": {where: func(s *site) {
			s.spec.Server = answering(s.t, http.StatusOK, `{"name":"mlserver","version":"1.7.1","extensions":[]}`)
		}, says: []string{
			`the server cannot be told to load models, as Triton 2 can: it is "mlserver" of version "1.7.1", without the extension model_repository`,
		}},
		"no server of the protocol": {
			where: func(s *site) { s.spec.Server = answering(s.t, http.StatusOK, "<html>") },
			says:  []string{"the server cannot be told to load models, as Triton 2 can: what it says of itself cannot be parsed"},
		},
		"Triton 1": {
			where: func(s *site) { s.spec.Server = answering(s.t, http.StatusNotFound, "Not Found") },
			says:  []string{"404 Not Found: Not Found; `server` of the target must be"},
		},
		"another folder": {where: func(s *site) { s.spec.Repository = s.t.TempDir() }, wrote: true, says: []string{
			"Triton server does not find it in its model repository", "is `repository` of the target, ", "the folder of Triton's `--model-repository`?",
		}},
		"no folder":    {where: func(s *site) { s.spec.Repository = "/nowhere" }, says: []string{"the model repository: open /nowhere: no such file"}},
		"another path": {where: func(s *site) { s.spec.Server += "/elsewhere" }, says: []string{"404 Not Found: Not Found; `server` of the target must be"}},
		"never there": {alone: &tritontest.Options{}, where: func(s *site) {
			s.spec.ReadyWithin = spec.Duration(300 * time.Millisecond)
			s.Stop()
		}, says: []string{"has not loaded it within 300ms: the Triton server does not answer: "}},
		"hung": {alone: &tritontest.Options{}, where: func(s *site) {
			s.spec.ReadyWithin = spec.Duration(time.Second)
			if err := s.Freeze(); err != nil {
				s.t.Fatal(err)
			}
		}, says: []string{"has not loaded it within 1s: the Triton server does not answer: "}},
		"two models":   {files: map[string]string{"a.onnx": "a", "b.onnx": "b"}, says: []string{"several .onnx files"}},
		"not Sluice's": {where: func(s *site) { s.folder(s.name("1"), "") }, says: []string{"it has a folder spam-filter-", "which Sluice has not made"}},
		"another store's copy": {where: func(s *site) {
			s.folder(s.name("1"), `{"name":"`+s.name("1")+`","store":"`+s.owner()+`","target":"spam-filter","version":"1","model":"sha256:0"}`)
		}, wrote: true, says: []string{"two copies of one store seem to serve here"}},
	} {
		t.Run(name, func(t *testing.T) {
			var here *site
			if s := servingtest.NewStore(t); tc.alone != nil {
				here = newSiteAlone(t, s, *tc.alone)
			} else {
				here = newSite(t, s)
			}
			inTriton := here.spec.Repository
			if tc.where != nil {
				tc.where(here)
			}
			files := tc.files
			if files == nil {
				files = map[string]string{"model.onnx": content(t, onnxtest.Text)}
			}
			_, err := here.open(here.releases(), "1", here.model(files, nil))
			for _, want := range tc.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %q", err, want)
				}
			}
			if tc.alone == nil {
				if loaded := here.loaded(); len(loaded) != 0 {
					t.Errorf("loaded: %q", loaded)
				}
			}
			if _, err := os.Stat(here.spec.Repository); err != nil {
				here.spec.Repository = inTriton
			}
			if left := here.tree(); len(left) != 0 != tc.wrote {
				t.Errorf("in the repository: %q", left)
			}
		})
	}
}

// answering is a server that gives one answer to everything.
func answering(t *testing.T, status int, body string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestNames: what a routing document says cannot name a folder elsewhere.
func TestNames(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	model := here.onnx(onnxtest.Text)
	for _, version := range []string{"", "0", "../../1", "1/1", "1x", "01", strings.Repeat("1", 19)} {
		if _, err := here.releases().model(t.Context(), routing.Release{Version: version, Model: model}); err == nil {
			t.Errorf("%q is the name of a model", version)
		}
	}
	r := here.releases()
	for _, target := range []string{"../x", ".x", "a/b", strings.Repeat("x", 200)} {
		r.target = target
		if _, err := r.model(t.Context(), routing.Release{Version: "1", Model: model}); err == nil {
			t.Errorf("%q is a target", target)
		}
	}
}

// TestAway: a Triton that is not there yet is waited for, and what stands in the way is said meanwhile.
func TestAway(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{})
	here.Stop()
	said, again := "", sync.OnceFunc(here.again)
	upstream, err := here.releases().open(t.Context(), routing.Release{Version: "1", Model: here.onnx(onnxtest.Text)}, func(what string) {
		if said = what; strings.Contains(what, "Triton server does not answer") {
			again()
		}
	})
	if err != nil {
		t.Fatalf("%v, while waiting for %s", err, said)
	}
	defer upstream.Close()
}

// TestLoadedAgain: a Triton that was killed and started again has nothing loaded, until the gateway has it load what it serves; and so has one
// whose repository was emptied, and one that somebody else has told to unload it.
func TestLoadedAgain(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{})
	upstream := here.mustOpen("1", here.onnx(onnxtest.Text))
	here.Stop()
	if err := here.spam(upstream); err == nil {
		t.Fatal("a Triton that was killed answers")
	}
	if err := os.RemoveAll(filepath.Join(here.spec.Repository, here.name("1"))); err != nil {
		t.Fatal(err)
	}
	here.again()
	servingtest.Until(t, "the model answers again", func() bool { return here.spam(upstream) == nil })
	if err := here.Unload(t.Context(), here.name("1")); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "the model is unloaded", func() bool { return here.spam(upstream) != nil })
	servingtest.Until(t, "the model answers once more", func() bool { return here.spam(upstream) == nil })
}

// TestHung: a Triton that hangs gets no requests after a while, which are answered at once, and is used again when it goes on.
func TestHung(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{})
	upstream := here.mustOpen("1", here.onnx(onnxtest.Text))
	if err := here.Freeze(); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "it is known to hang", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := upstream.Infer(ctx, spam)
		answer, ok := errors.AsType[*oip.Error](err)
		return ok && answer.Status == http.StatusServiceUnavailable && answer.RetryAfter > 0 && strings.Contains(answer.Message, "is not healthy")
	})
	if err := here.Thaw(); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "it answers again", func() bool { return here.spam(upstream) == nil })
	if n := here.Loads(here.name("1")); n != 1 {
		t.Errorf("the model was loaded %d times", n)
	}
}

// TestEnding: a Triton that was told to end takes no connections, and answers on those that a gateway has until it ends.
func TestEnding(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{Args: []string{"--exit-timeout-secs=3"}})
	upstream := here.mustOpen("1", here.onnx(onnxtest.Text))
	if err := errors.Join(here.spam(upstream), here.End()); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "it takes no connections", func() bool { return errors.Is(newControl(here.URL).ready(t.Context(), here.name("1")), errAway) })
	if err := here.spam(upstream); err != nil {
		t.Errorf("a connection that was there: %v", err)
	}
	servingtest.Until(t, "it has ended", func() bool { return here.spam(upstream) != nil })
}

// TestBusyPort: a port that somebody else has keeps a gateway, or a Triton, from starting, and a release on what is there instead fails.
func TestBusyPort(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{})
	server := here.serve(gateway.Ports{})
	defer servingtest.Stop(t, server)
	other := siteOf(t, servingtest.NewStore(t), here.Server, here.spec.Repository)
	if g, err := other.serveAt(servingtest.Ports(t, server)); !errors.Is(err, gateway.ErrPortInUse) {
		t.Errorf("a second gateway: %v", err)
		servingtest.Stop(t, g)
	}
	here.Stop()
	at, err := url.Parse(here.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler()} //nolint:gosec // a test's
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) })
	if err := here.Again(t.Context()); err == nil || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("a second Triton: %v", err)
	}
	if _, err := here.open(here.releases(), "1", here.onnx(onnxtest.Text)); err == nil || !strings.Contains(err.Error(), "must be the URL of its HTTP port") {
		t.Errorf("a release on another server: %v", err)
	}
	_ = web.Close()
	serving.Wait()
	here.again()
	here.mustOpen("1", here.onnx(onnxtest.Text))
}

// TestOnlyItsOwn: what a sweep removes is what it made for releases that the document has dropped, and nothing else.
func TestOnlyItsOwn(t *testing.T) {
	here := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{})
	for _, version := range []string{"1", "2", "9"} {
		here.mustOpenAndClose(version, here.onnx(onnxtest.Text))
	}
	mark := func(name, store, target, version string) string {
		return fmt.Sprintf(`{"name":%q,"store":%q,"target":%q,"version":%q,"model":"sha256:0"}`, name, store, target, version)
	}
	here.folder("resnet", "")
	here.folder(here.name("3"), "")
	here.folder(here.name("1")+"-front", mark(here.name("1"), here.owner(), servingtest.Name, "1")) // a copy
	here.folder("spam-filter-0a0a0a0a-v1", mark("spam-filter-0a0a0a0a-v1", "0a0a0a0a", servingtest.Name, "1"))
	here.folder("other-"+here.owner()+"-v1", mark("other-"+here.owner()+"-v1", here.owner(), "other", "1"))
	here.folder(temporaryPrefix+here.name("1")+".ABC", "") // of a gateway that was killed
	here.folder(temporaryPrefix+here.name("2")+".ABC", "")
	here.folder(temporaryPrefix+"else.ABC", "")
	doc := routing.Document{Target: servingtest.Name, Versions: 4, Releases: []routing.Release{{Version: "2"}}}
	if err := here.releases().sweep(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(here.spec.Repository)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range folders {
		left = append(left, f.Name())
	}
	want := []string{
		temporaryPrefix + "else.ABC", temporaryPrefix + here.name("2") + ".ABC", "other-" + here.owner() + "-v1", "resnet",
		here.name("1") + "-front", here.name("2"), here.name("3"), here.name("9"), "spam-filter-0a0a0a0a-v1",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{here.name("2"), here.name("9")}, here.loaded()); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

// TestOtherGateways: a model is not unloaded while another gateway may send it requests.
func TestOtherGateways(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	here.mustOpenAndClose("1", here.onnx(onnxtest.Text))
	other := servingtest.NewNeighbour(t, here.store, servingtest.Name, 6, 6)
	other.Beat()
	moved := make(chan time.Time, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		other.Report.Revision = 7
		moved <- time.Now()
		other.Beat()
	})
	if err := here.releases().sweep(t.Context(), routing.Document{Target: servingtest.Name, Revision: 7, Versions: 1}); err != nil {
		t.Fatal(err)
	}
	done := time.Now()
	if !(<-moved).Before(done) {
		t.Error("unloaded before the other gateway had the revision")
	}
	if calls := here.Calls(here.name("")); calls[len(calls)-1] != "unload "+here.name("1") {
		t.Errorf("calls %q", calls)
	}
}

// TestStillServed: a gateway that goes on sending requests by an earlier revision, as one does where the new release does not load, keeps its
// model until it has gone.
func TestStillServed(t *testing.T) {
	for how, closed := range map[string]bool{"closed": true, "killed": false} {
		t.Run(how, func(t *testing.T) {
			here := newSite(t, servingtest.NewStore(t))
			here.publish(here.releases(), "1", here.onnx(onnxtest.Text))
			r := here.releases()
			r.lease = lookEvery / 2
			other := servingtest.NewNeighbour(t, here.store, servingtest.Name, 7, 6)
			doc := routing.Document{Target: servingtest.Name, Revision: 7, Versions: 1}
			err := other.During(func() error { return r.sweep(t.Context(), doc) })
			if err == nil || !strings.Contains(err.Error(), "the gateway on there still serves revision 6") || len(here.Calls(here.name(""))) != 0 {
				t.Fatalf("%v, calls %q", err, here.Calls(here.name("")))
			}
			if other.Report.Closed = closed; closed {
				other.Beat()
			}
			if err := r.sweep(t.Context(), doc); err != nil || len(here.tree()) != 0 {
				t.Errorf("%v, left: %q", err, here.tree())
			}
		})
	}
}

// TestKilled: a gateway that is killed while Triton loads a release leaves a model that the next one finds.
func TestKilled(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	doc := routing.Document{Target: servingtest.Name, Versions: 1, Releases: []routing.Release{{Version: "1", Model: here.onnx(onnxtest.Text), Weight: 1}}}
	if _, err := routing.Set(t.Context(), here.store, 0, doc); err != nil {
		t.Fatal(err)
	}
	process := proctest.Spawn(t, gatewayVariable, here.store.URL()+" "+here.URL+" "+here.spec.Repository)
	process.Says()
	servingtest.Until(t, "the model is being loaded", func() bool { return here.Loads(here.name("1")) > 0 })
	process.Kill()
	written, err := os.Stat(filepath.Join(here.spec.Repository, here.name("1"), "1", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	server := here.serve(gateway.Ports{})
	defer servingtest.Stop(t, server)
	servingtest.Until(t, "the next gateway serves", func() bool {
		releases := server.Gateway.State().Releases
		return len(releases) == 1 && releases[0].State == gateway.Ready
	})
	found, err := os.Stat(filepath.Join(here.spec.Repository, here.name("1"), "1", "model.onnx"))
	if err != nil || !os.SameFile(written, found) {
		t.Errorf("the model was written again: %v", err)
	}
	if n := here.Loads(here.name("1")); n != 1 {
		t.Errorf("the model was loaded %d times", n)
	}
}

// TestEngine: an engine whose inputs a front makes is three models, which come and go together.
func TestEngine(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	upstream := here.mustOpen("1", here.engine(content(t, onnxtest.WordsBack)))
	outputs, err := upstream.Infer(t.Context(), []oip.Tensor{{Name: "text", Shape: []int64{2}, Data: []string{"spam", "ham"}}})
	if err != nil || len(outputs) != 1 || !slices.Equal(outputs[0].Shape, []int64{2, 2}) {
		t.Errorf("%+v, %v", outputs, err)
	}
	_ = upstream.Close() // or it is loaded again
	if n := len(here.tree()); n != 9 {
		t.Errorf("%q", here.tree())
	}
	const want = "it is a TensorRT engine, built by TensorRT 10.3.0 on NVIDIA L4 (compute capability 8.9, driver 550.54.15), and may load nowhere else"
	if _, err := here.open(here.releases(), "2", here.engine("built elsewhere")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	before := here.tree()
	rtx := here.model(map[string]string{layout.EngineFile: "an engine"}, layout.Engine{Flavor: spec.FlavorRTX}.Meta())
	if _, err := here.open(here.releases(), "3", rtx); err == nil || !strings.Contains(err.Error(), "TensorRT for RTX") || !slices.Equal(before, here.tree()) {
		t.Errorf("%v; the repository was %q, and is %q", err, before, here.tree())
	}
	if err := here.releases().sweep(t.Context(), routing.Document{Target: servingtest.Name, Versions: 2}); err != nil {
		t.Fatal(err)
	}
	if left := here.tree(); len(left) != 0 || len(here.loaded()) != 0 {
		t.Errorf("left: %q, loaded: %q", left, here.loaded())
	}
}

func TestCheck(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t))
	if err := Check(t.Context(), here.spec); err != nil {
		t.Error(err)
	}
	if left := here.tree(); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	elsewhere := here.spec
	elsewhere.Repository = "/nowhere"
	if err := Check(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "/nowhere: no such file") {
		t.Error(err)
	}
	elsewhere = here.spec
	elsewhere.Server = answering(t, http.StatusNotImplemented, "<!DOCTYPE HTML>\n<html><head>\n<title>Error response</title></head></html>")
	if err := Check(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "501 Not Implemented: a web page; `server` of the target must be the URL") {
		t.Error(err)
	}
	polling := newSiteAlone(t, servingtest.NewStore(t), tritontest.Options{Mode: "poll"})
	if err := Check(t.Context(), polling.spec); !errors.Is(err, errNotExplicit) {
		t.Error(err)
	}
	polling.Stop()
	if err := Check(t.Context(), polling.spec); !errors.Is(err, errAway) {
		t.Error(err)
	}
}

// TestBucket: Triton's repository may be a bucket.
func TestBucket(t *testing.T) {
	b := newBucket(t)
	here := siteOf(t, servingtest.NewStore(t), tritontest.Start(t, tritontest.Options{Repository: b.asTriton}), b.address)
	keys := func() (keys []string) {
		for _, key := range b.keys(t) {
			keys = append(keys, strings.ReplaceAll(key, here.owner(), "OWNER"))
		}
		return keys
	}
	if err := b.Write(t.Context(), "resnet/1/model.onnx", strings.NewReader("x"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it
		here.mustOpenAndClose("1", here.onnx(onnxtest.Text))
	}
	if n := here.Loads(here.name("1")); n != 1 {
		t.Errorf("the model was loaded %d times", n)
	}
	want := []string{
		"resnet/1/model.onnx", "spam-filter-OWNER-v1/.sluice.json", "spam-filter-OWNER-v1/1/model.onnx", "spam-filter-OWNER-v1/1/words.txt",
		"spam-filter-OWNER-v1/config.pbtxt",
	}
	if diff := cmp.Diff(want, keys()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := here.open(here.releases(), "1", here.onnx(onnxtest.TextClose)); err == nil || !strings.Contains(err.Error(), "two copies of one store") {
		t.Errorf("another model: %v", err)
	}
	here.mustOpenAndClose("2", here.engine(content(t, onnxtest.WordsBack)))
	if err := here.releases().sweep(t.Context(), routing.Document{Target: servingtest.Name, Versions: 2}); err != nil {
		t.Fatal(err)
	}
	calls := here.Calls(here.name(""))
	unloads := []string{"unload " + here.name("1"), "unload " + here.name("2"), "unload " + here.name("2-engine"), "unload " + here.name("2-front")}
	if diff := cmp.Diff(unloads, calls[max(0, len(calls)-len(unloads)):]); diff != "" {
		t.Errorf("an ensemble goes before its models (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], keys()); diff != "" || len(here.loaded()) != 0 {
		t.Errorf("loaded %q (-want +got):\n%s", here.loaded(), diff)
	}
	if err := Check(t.Context(), here.spec); err != nil {
		t.Error(err)
	}
}
