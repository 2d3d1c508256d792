package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
)

const (
	// VersionHeader is the header that requests a version by name. Such requests are answered but not counted, because the client chose the
	// version, not chance.
	VersionHeader = "X-Sluice-Version"
	// ReleaseHeader names the version that answered.
	ReleaseHeader = "X-Sluice-Release"
)

// infer answers POST v2/models/M[/versions/V]/infer.
func (g *Gateway) infer(w http.ResponseWriter, r *http.Request) {
	message, err := g.respond(w, r)
	takenBy(w, time.Now().Add(answerTime))
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	oip.WriteMessage(w, message)
}

// respond makes the inference of a request. The request takes a slot when it has arrived and returns it before its answer is sent, so a
// slow client holds up nobody.
func (g *Gateway) respond(w http.ResponseWriter, r *http.Request) (oip.Message, error) {
	body, done, err := g.bodies.read(w, r)
	defer done()
	if err != nil {
		return oip.Message{}, err
	}
	leave, err := g.enter(r.Context())
	if err != nil {
		return oip.Message{}, err
	}
	defer leave()
	req, err := oip.ParseRequest(body, r.Header)
	if err != nil {
		return oip.Message{}, err
	}
	res, release, err := g.answer(r.Context(), r.PathValue("version"), r.Header, req)
	if release != "" {
		w.Header().Set(ReleaseHeader, release)
	}
	if err != nil {
		return oip.Message{}, err
	}
	return res.Encode(req)
}

// answer makes the inference of a request, over either protocol, and says which release made it or failed to. Without a version, the header
// may name one.
func (g *Gateway) answer(ctx context.Context, version string, header http.Header, req *oip.InferRequest) (res *oip.InferResponse, release string, err error) {
	if err := g.mayLabel(ctx, req.Parameters); err != nil {
		return nil, "", err
	}
	key, err := g.keyOf(header, func(name string) (string, error) { return keyOfRequest(name, req) })
	if err != nil {
		return nil, "", err
	}
	a, err := g.assign(cmp.Or(version, header.Get(VersionHeader)), key)
	if err != nil {
		return nil, "", err
	}
	defer a.inflight.Done()
	defer g.started(a)()
	g.note(ctx).assigned(a, key)
	label, err := answer.LabelOf(req.Parameters["label"])
	if err == nil {
		err = a.rules.Fits(label, a.outputs)
	}
	if err != nil {
		g.refuseLabel(a)
		return nil, a.Version, err
	}
	leave, err := g.enterShare(ctx, a)
	if err != nil {
		return nil, a.Version, err
	}
	defer leave()
	outputs, err := g.run(oip.WithCall(ctx, oip.CallOf(req.ID, header)), a, req.Inputs, label)
	if err == nil {
		outputs, err = requested(outputs, req.Outputs)
	}
	if err != nil {
		return nil, a.Version, err
	}
	return &oip.InferResponse{ModelName: g.opts.Target, ModelVersion: a.Version, ID: req.ID, Outputs: outputs}, a.Version, nil
}

// refuseLabel counts a request whose label is no class, which makes no inference.
func (g *Gateway) refuseLabel(a *assignment) {
	a.dropShadow()
	if a.counted {
		g.counters.refused(a.revision, a.Version)
	}
}

// run makes the inference and counts the result.
func (g *Gateway) run(client context.Context, a *assignment, inputs []oip.Tensor, label answer.Label) ([]oip.Tensor, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	defer cancel(nil)
	defer g.abandon(client, a, cancel)()
	ctx, stop := context.WithTimeout(ctx, g.opts.Timeout)
	defer stop()
	handedOver := false
	defer func() {
		if a.shadow != nil && !handedOver {
			a.shadow.inflight.Done()
		}
	}()
	outputs, took, err := a.infer(ctx, inputs)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &oip.Error{Status: http.StatusGatewayTimeout, Message: fmt.Sprintf("the inference took longer than %v", g.opts.Timeout)}
	}
	gone := err != nil && errors.Is(context.Cause(ctx), errLeft)
	if gone {
		err = errLeft
	}
	invalid := err != nil && oip.ErrorStatus(err) == http.StatusBadRequest
	if a.counted {
		what := answered
		switch {
		case gone:
			what = clientLeft
		case err != nil:
			if what = outcomeOf(oip.ErrorStatus(err)); what == failure {
				g.log.Warn("an inference failed", "release", a.Version, "error", err)
			}
		case a.rules.Wrong(label, outputs):
			what = wrong
		}
		loss, known := a.rules.Loss(label, outputs, a.lossBound)
		g.counters.request(a, requestOutcome{outcome: what, labelled: label != "" && err == nil, loss: loss, hasLoss: known, latency: took})
	}
	if a.shadow != nil && !invalid && !gone {
		handedOver = true
		g.mirror.add(mirrored{
			revision: a.revision, drawn: a.drawn, shadow: a.shadow, inputs: inputs, rules: a.rules, lossBound: a.lossBound, label: label, outputs: outputs,
		})
	}
	return outputs, err
}

// inferFinite makes an inference whose answer can be sent: a model that answers NaN has failed, and so has one that panics.
func inferFinite(ctx context.Context, upstream Upstream, inputs []oip.Tensor) (outputs []oip.Tensor, err error) {
	defer func() {
		if p := recover(); p != nil {
			outputs, err = nil, fmt.Errorf("the model panicked: %v", p)
		}
	}()
	outputs, err = upstream.Infer(ctx, inputs)
	if err != nil {
		return nil, err
	}
	for _, t := range outputs {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("the model's response cannot be sent: %w", err)
		}
	}
	return outputs, nil
}

// requested picks the outputs a request asked for, all when it named none.
func requested(outputs []oip.Tensor, wanted []oip.RequestedOutput) ([]oip.Tensor, error) {
	if len(wanted) == 0 {
		return outputs, nil
	}
	picked := make([]oip.Tensor, len(wanted))
	for i, want := range wanted {
		at := slices.IndexFunc(outputs, func(t oip.Tensor) bool { return t.Name == want.Name })
		if at < 0 {
			return nil, oip.Invalid("the model has no output %q", want.Name)
		}
		picked[i] = outputs[at]
	}
	return picked, nil
}
