// Package kservetest plays KServe for tests, on an API server that is real, with KServe's own CustomResourceDefinition: a controller serves
// each InferenceService from this process and reports on it as KServe does. Models are read from the bucket
// by the rules of KServe's storage initializer, and must lie as NVIDIA Triton wants them.
package kservetest

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sluiceml/sluice/internal/poll"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	services    = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}
)

const lookEvery = 20 * time.Millisecond

// definition is config/crd/full/serving.kserve.io_inferenceservices.yaml of github.com/kserve/kserve at v0.20.0, which is in its release's
// install/v0.20.0/kserve-crds.yaml, too. It is under the Apache License, Version 2.0, as Sluice is.
//
//go:embed serving.kserve.io_inferenceservices.yaml.gz
var definition []byte

// Definition is KServe's CustomResourceDefinition of InferenceServices.
func Definition() (*unstructured.Unstructured, error) {
	text, err := gzip.NewReader(bytes.NewReader(definition))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, yaml.NewYAMLToJSONDecoder(text).Decode(object)
}

// Install makes the cluster know InferenceServices.
func Install(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	definition, err := Definition()
	if err != nil {
		return err
	}
	if _, err = client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	for range poll.Every(ctx, lookEvery) {
		if _, err = client.Resource(services).List(ctx, metav1.ListOptions{}); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the cluster does not know InferenceServices: %w", err)
}

// Controller plays KServe's controller in one namespace.
type Controller struct {
	services dynamic.ResourceInterface
	// query is what follows the bucket's address where Sluice has it, and KServe has by its secrets.
	query string

	mu       sync.Mutex
	running  map[string]*predictor
	statuses map[string]map[string]any // that Report has set
}

// Play serves the InferenceServices of a namespace until the test ends. query is what follows a bucket's address: ?endpoint=...
func Play(t testing.TB, config *rest.Config, namespace, query string) *Controller {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{
		services: client.Resource(services).Namespace(namespace), query: query,
		running: map[string]*predictor{}, statuses: map[string]map[string]any{},
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var playing sync.WaitGroup
	playing.Go(func() { c.play(ctx) })
	t.Cleanup(func() {
		stop()
		playing.Wait()
		for _, p := range c.running {
			p.close()
		}
	})
	return c
}

// Report makes the controller report a status of the test's for an InferenceService, and serve nothing.
func (c *Controller) Report(name string, status map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[name] = status
}

// Running lists the InferenceServices that are served.
func (c *Controller) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.running))
}

func (c *Controller) play(ctx context.Context) {
	for range poll.Every(ctx, lookEvery) {
		if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
			log.Printf("the played KServe: %v", err)
		}
	}
}

func (c *Controller) reconcile(ctx context.Context) error {
	found, err := c.services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	there := map[string]bool{}
	for i := range found.Items {
		object := &found.Items[i]
		there[object.GetName()] = true
		if status := c.statusOf(ctx, object); status != nil {
			object.Object["status"] = status
			if _, err := c.services.UpdateStatus(ctx, object, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs = append(errs, err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.running {
		if !there[name] {
			p.close()
			delete(c.running, name)
		}
	}
	return errors.Join(errs...)
}

// statusOf starts what an InferenceService asks for and returns its status; nil when it has one already.
func (c *Controller) statusOf(ctx context.Context, object *unstructured.Unstructured) map[string]any {
	name := object.GetName()
	if _, has := object.Object["status"]; has {
		return nil
	}
	c.mu.Lock()
	reported := c.statuses[name]
	c.mu.Unlock()
	if reported != nil {
		return reported
	}
	uri, _, err := unstructured.NestedString(object.Object, "spec", "predictor", "model", "storageUri")
	var p *predictor
	if err == nil {
		p, err = start(ctx, name, uri+c.query)
	}
	if err != nil {
		return Failed("ModelLoadFailed", err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[name] = p
	return map[string]any{
		"url": p.server.URL, "address": map[string]any{"url": p.server.URL},
		"conditions":  []any{Condition("PredictorReady", "True", "", ""), Condition("IngressReady", "True", "", ""), Condition("Ready", "True", "", "")},
		"modelStatus": map[string]any{"transitionStatus": "UpToDate"},
	}
}

// Condition is one of a status.
func Condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}

// Failed is the status of a model that cannot be loaded.
func Failed(reason, message string) map[string]any {
	const unavailable, why = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
	return map[string]any{
		"conditions": []any{Condition("PredictorReady", "False", unavailable, why), Condition("Ready", "False", unavailable, why)},
		"modelStatus": map[string]any{
			"transitionStatus": "BlockedByFailedLoad",
			"lastFailureInfo":  map[string]any{"reason": reason, "message": message, "exitCode": int64(1)},
		},
	}
}
