// Package podtemplate lets an environment say of a pool's pods what only their cluster knows: where they may run, with which volumes,
// secrets, devices and rights. It is said in Kubernetes's own words, as a PodTemplateSpec.
package podtemplate

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/sluiceml/sluice/internal/template"
)

// Container is the container of the pod that a template may add to.
const Container = "ranks"

// FileCache is the volume of a template that keeps what pods fetch.
const FileCache = "file-cache"

// Private is the volume that a template cannot replace.
const Private = "told"

// Parse reads a template, which may be nil. The error says what is wrong of which field.
func Parse(document map[string]any) (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	if err := template.Read(document, &t); err != nil {
		return t, err
	}
	for _, c := range t.Spec.Containers {
		switch {
		case c.Name != Container:
			return t, template.Errorf("spec.containers", "%q would never end: the training's container is called %s, and a sidecar is one of `initContainers` with "+
				"`restartPolicy: Always`", c.Name, Container)
		case c.Image != "":
			return t, template.Errorf("spec.containers", "the image is set by `runtime` of the pool or the step")
		case len(c.Command)+len(c.Args) > 0:
			return t, template.Errorf("spec.containers", "the command is set by Sluice, and the step's `command` is run by its agent")
		}
		for _, v := range c.Env {
			if strings.HasPrefix(v.Name, "SLUICE_") {
				return t, template.Errorf("spec.containers", "%s is set by Sluice", v.Name)
			}
		}
	}
	if slices.ContainsFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == Private }) {
		return t, template.Errorf("spec.volumes", "a volume called %s is Sluice's own: choose another name", Private)
	}
	return t, nil
}

// HasFileCache reports whether a template has the volume FileCache.
func HasFileCache(t corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == FileCache })
}

// Merge completes a pod by a template. Where both say something the pod's own word counts, but for its volumes. What both list, such as
// tolerations, is joined, and the pod goes only where both let it.
func Merge(t corev1.PodTemplateSpec, pod *corev1.Pod) (*corev1.Pod, error) {
	own := pod.DeepCopy()
	own.Spec.Volumes = slices.DeleteFunc(own.Spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(t.Spec.Volumes, func(theirs corev1.Volume) bool { return theirs.Name == v.Name })
	})
	own.Spec.Tolerations = slices.Concat(t.Spec.Tolerations, own.Spec.Tolerations)
	own.Spec.Affinity = both(t.Spec.Affinity, own.Spec.Affinity)
	for _, theirs := range t.Spec.Containers {
		for i := range own.Spec.Containers {
			if c := &own.Spec.Containers[i]; c.Name == theirs.Name {
				c.EnvFrom = slices.Concat(theirs.EnvFrom, c.EnvFrom)
			}
		}
	}
	base, err := json.Marshal(corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
	if err != nil {
		return nil, err
	}
	over, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(base, over, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	var out corev1.Pod
	return &out, json.Unmarshal(merged, &out)
}

// both is an affinity for the machines that two allow.
func both(theirs, own *corev1.Affinity) *corev1.Affinity {
	if theirs == nil {
		return own
	}
	joined := theirs.DeepCopy()
	if own == nil || own.NodeAffinity == nil {
		return joined
	}
	if joined.NodeAffinity == nil {
		joined.NodeAffinity = own.NodeAffinity
		return joined
	}
	required := &joined.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		return joined
	}
	// Of the terms one has to hold, and of a term all.
	var terms []corev1.NodeSelectorTerm
	for _, a := range (*required).NodeSelectorTerms {
		for _, b := range own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			terms = append(terms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions), MatchFields: slices.Concat(a.MatchFields, b.MatchFields),
			})
		}
	}
	*required = &corev1.NodeSelector{NodeSelectorTerms: terms}
	return joined
}
