package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/training"
)

// Labels of everything that belongs to a gang. Their values are for people and selectors, so what a label cannot hold is left out.
const (
	labelManaged    = "app.kubernetes.io/managed-by"
	labelPool       = "sluice.dev/pool"
	labelRun        = "sluice.dev/run"
	labelStep       = "sluice.dev/step"
	labelGeneration = "sluice.dev/generation"
	labelGang       = "sluice.dev/gang"
	labelNode       = "sluice.dev/node"
	// labelClaim marks the claims among the ConfigMaps.
	labelClaim = "sluice.dev/claim"
)

// What a claim's data says.
const (
	claimNodes    = "nodes"
	claimCapacity = "capacity"
)

// nameOf is the name of a gang's claim, which no other gang of the pool has.
func (p *Pool) nameOf(key training.Key) string {
	sum := sha256.Sum256([]byte(p.opts.Name + "\x00" + key.String()))
	return "sluice-" + hex.EncodeToString(sum[:10])
}

// labels of a gang.
func (p *Pool) labels(key training.Key) map[string]string {
	return map[string]string{
		labelManaged: "sluice", labelPool: labelValue(p.opts.Name), labelGang: p.nameOf(key),
		labelRun: labelValue(key.Run), labelStep: labelValue(key.Step), labelGeneration: strconv.Itoa(key.Generation),
	}
}

var notOfLabel = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// labelValue is text as a label may hold it.
func labelValue(text string) string {
	kept := notOfLabel.ReplaceAllString(text, "")
	return strings.Trim(kept[:min(len(kept), 63)], "-_.")
}

// limit is how many nodes of a capacity the pool may have, if its limits were spent on them alone.
func (p *Pool) limit(capacity string) int {
	return p.left(capacity, 0, 0)
}

// left is how many nodes of a capacity the limits leave beside so many that cost so much.
func (p *Pool) left(capacity string, nodes int, usd float64) int {
	left, limits, price := math.MaxInt, p.opts.Spec.Limits, p.opts.Spec.USDPerHour.Of(capacity)
	if limits.Nodes > 0 {
		left = max(0, limits.Nodes-nodes)
	}
	if limits.USDPerHour > 0 && price > 0 {
		left = min(left, training.NodesFor(limits.USDPerHour, usd, price))
	}
	return left
}

// find returns the gang of a key.
func (p *Pool) find(ctx context.Context, key training.Key) (_ gang, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claim, err := p.opts.Client.ConfigMaps(p.opts.Namespace).Get(ctx, p.nameOf(key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return gang{}, false, nil
	} else if err != nil {
		return gang{}, false, apiError("find the gang", err)
	}
	g, err := gangOf(key, claim)
	return g, true, err
}

func gangOf(key training.Key, claim *corev1.ConfigMap) (gang, error) {
	nodes, err := strconv.Atoi(claim.Data[claimNodes])
	if err != nil || nodes < 1 || len(claim.UID) < 8 {
		return gang{}, fmt.Errorf("ConfigMap %s was not created by this release of Sluice: delete it", claim.Name)
	}
	return gang{
		key: key, name: claim.Name, uid: claim.UID, version: claim.ResourceVersion, nodes: nodes, capacity: claim.Data[claimCapacity],
	}, nil
}

// claim returns the gang of a key, and makes it when there is none, or one of which nothing lives. It has at most so many nodes. Gangs that
// it has replaced are in ended, also when it fails: their nodes are paid for.
func (p *Pool) claim(ctx context.Context, r training.Request, most int) (_ gang, ended []training.Gang, _ error) {
	for range 3 { // it may go, or come, at any moment
		g, found, err := p.find(ctx, r.Key)
		if err != nil {
			return g, ended, err
		}
		if !found {
			if g, err = p.newClaim(ctx, r, most); err == nil || !apierrors.IsAlreadyExists(err) {
				return g, ended, err
			}
			continue
		}
		replace, err := p.replace(ctx, g, r)
		if err != nil || !replace {
			return g, ended, err
		}
		paid, err := p.remove(ctx, g)
		ended = append(ended, paid)
		if err != nil {
			return g, ended, err
		}
	}
	return gang{}, ended, fmt.Errorf("other workers keep acquiring and releasing %s", r.Key)
}

// newClaim claims nodes, as many as the limits leave. The error is the API's own when somebody else was faster.
func (p *Pool) newClaim(ctx context.Context, r training.Request, most int) (gang, error) {
	free, err := p.free(ctx, r, "")
	if err != nil {
		return gang{}, err
	}
	if free < r.MinNodes {
		return gang{}, p.full(r.MinNodes, free)
	}
	nodes := min(most, free)
	labels := p.labels(r.Key)
	labels[labelClaim] = "true"
	claim, err := p.create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: p.nameOf(r.Key), Labels: labels},
		Data: map[string]string{
			claimNodes: strconv.Itoa(nodes), claimCapacity: r.Capacity, "run": r.Run, "step": r.Step, "workflow": r.Workflow,
		},
	})
	if err != nil {
		return gang{}, err
	}
	g, err := gangOf(r.Key, claim)
	if err != nil {
		return gang{}, err
	}
	// Claims are made before they are counted, and each counts those before it: of any that come at once the first has its place.
	if free, err = p.free(ctx, r, g.version); err == nil && free < nodes {
		err = p.full(nodes, free)
	}
	if err != nil {
		_, failed := p.remove(ctx, g) // it has no pods yet
		return gang{}, errors.Join(err, failed)
	}
	return g, nil
}

func (p *Pool) full(wanted, free int) error {
	return fmt.Errorf("%d nodes are needed, but only %d are left within the pool's limits: %w", wanted, free, training.ErrNoCapacity)
}

// free is how many nodes the limits leave a request beside the claims of others that were made before a version; before now when it is
// empty.
func (p *Pool) free(ctx context.Context, r training.Request, before string) (int, error) {
	limits := p.opts.Spec.Limits
	if limits.Nodes == 0 && limits.USDPerHour == 0 {
		return math.MaxInt, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claims, err := p.opts.Client.ConfigMaps(p.opts.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labelClaim + "=true," + labelPool + "=" + labelValue(p.opts.Name),
	})
	if err != nil {
		return 0, apiError("count the pool's nodes", err)
	}
	nodes, usd := 0, 0.0
	for i := range claims.Items {
		g, err := gangOf(training.Key{}, &claims.Items[i])
		if err != nil {
			return 0, err
		}
		if g.name != p.nameOf(r.Key) && (before == "" || older(g.version, before)) {
			nodes += g.nodes
			usd += float64(g.nodes) * p.opts.Spec.USDPerHour.Of(g.capacity)
		}
	}
	return p.left(r.Capacity, nodes, usd), nil
}

// older compares resource versions, which are numbers that grow with every change of the cluster.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// create makes a ConfigMap.
func (p *Pool) create(ctx context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	made, err := p.opts.Client.ConfigMaps(p.opts.Namespace).Create(ctx, m, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no namespace %s: %w: %w", p.opts.Namespace, training.ErrInvalid, err)
	}
	return made, apiError("claim nodes", err)
}

// startedKey holds the gang in the ConfigMap that says that it was handed out.
const startedKey = "gang.json"

// handedOut is a gang as it was handed out.
type handedOut struct {
	training.Gang
	Pods []string `json:"pods"` // the identities of its pods, by node
}

// handOut makes it known that the gang is whole, and returns it as whoever was first did.
func (p *Pool) handOut(ctx context.Context, g gang, h handedOut) (handedOut, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return h, err
	}
	_, err = p.create(ctx, &corev1.ConfigMap{ObjectMeta: p.owned(g, g.incarnation()), Data: map[string]string{startedKey: string(raw)}})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return h, err
	}
	first, _, err := p.started(ctx, g)
	return first, err
}

// started returns the gang as it was handed out, if it was.
func (p *Pool) started(ctx context.Context, g gang) (h handedOut, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	m, err := p.opts.Client.ConfigMaps(p.opts.Namespace).Get(ctx, g.incarnation(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return h, false, nil
	} else if err != nil {
		return h, false, apiError("find the gang", err)
	}
	if err := json.Unmarshal([]byte(m.Data[startedKey]), &h); err != nil {
		return h, false, fmt.Errorf("ConfigMap %s: %w", m.Name, err)
	}
	return h, true, nil
}

// owned describes something that goes with the gang's claim, also when nobody releases it.
func (p *Pool) owned(g gang, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Labels: p.labels(g.key),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: g.name, UID: g.uid}},
	}
}
