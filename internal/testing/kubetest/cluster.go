// Package kubetest runs a Kubernetes cluster for tests. Real are etcd, the API server with its admission, the scheduler and the
// controllers that matter here (garbage collection, quotas, service accounts, eviction by taints): the programs of a release, that
// tools/kube builds. Played are the machines: there is no container runtime, so a Kubelet of this package runs what pods bound to its
// node describe as processes of this machine, and reports on them as kubelets do.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// startLimit bounds the start of the control plane: it takes seconds on an idle machine.
const startLimit = 3 * time.Minute

// controllers are those that tests need.
const controllers = "garbage-collector-controller,pod-garbage-collector-controller,resourcequota-controller," +
	"serviceaccount-controller,taint-eviction-controller,node-lifecycle-controller,namespace-controller"

// Cluster is a running control plane.
type Cluster struct {
	// Config is the administrator's.
	Config *rest.Config
	// Client is made of Config.
	Client kubernetes.Interface

	dir   string
	parts []*part
	users map[string]string // token by name
}

// part is one of the control plane's processes.
type part struct {
	name string
	*proc.Process
	said *bytes.Buffer
}

// Program finds the program that `make kube` builds.
func Program() (string, error) { return rig.Program("kube", "kube") }

// Start starts a cluster without nodes. The users that are named can be asked for with As; they may do nothing until a role says so.
func Start(ctx context.Context, users ...string) (*Cluster, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		c, err := start(ctx, program, users)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return c, err
		}
		// Somebody took a port after freePorts: so many processes start at once in the tests of a module.
	}
}

// start is Start on ports that may be taken before they are listened on.
func start(ctx context.Context, program string, users []string) (_ *Cluster, err error) {
	c := &Cluster{users: map[string]string{"admin": token()}}
	for _, name := range users {
		c.users[name] = token()
	}
	if c.dir, err = os.MkdirTemp("", "kubetest-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.said())
			c.Stop()
		}
	}()
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	if err := c.run(ctx, program, "etcd", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1])); err != nil {
		return nil, err
	}
	if err := c.startServer(ctx, program, etcd, ports[2]); err != nil {
		return nil, err
	}
	kubeconfig := "--kubeconfig=" + c.path("admin.kubeconfig")
	for _, args := range [][]string{
		{"kube-scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0"},
		{
			"kube-controller-manager", kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers=" + controllers,
			"--service-account-private-key-file=" + c.path("accounts.key"), "--use-service-account-credentials=false",
			// A played kubelet sends no heartbeats.
			"--node-monitor-grace-period=24h", "--node-startup-grace-period=24h",
		},
	} {
		if err := c.run(ctx, program, args[0], args[1:]...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// startServer starts the API server and waits until it is ready.
func (c *Cluster) startServer(ctx context.Context, program, etcd string, port int) error {
	if err := c.run(ctx, program, "kube-apiserver", "--etcd-servers="+etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--cert-dir="+c.path("server"), "--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubetest", "--service-account-key-file="+c.path("accounts.key"),
		"--service-account-signing-key-file="+c.path("accounts.key"),
		// Of nodes nobody says that they are ready but the played kubelet.
		"--disable-admission-plugins=TaintNodesByCondition"); err != nil {
		return err
	}
	c.Config = &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: c.users["admin"], QPS: 500, Burst: 500,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.path("server/apiserver.crt")},
	}
	var notReady error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for _, p := range c.parts {
			if ended(p.Process) {
				return false, fmt.Errorf("%s has ended", p.name)
			}
		}
		notReady = c.ready(ctx)
		return notReady == nil, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("the API server is not ready: %w", notReady)
	} else if err != nil {
		return err
	}
	return clientcmd.WriteToFile(c.kubeconfig("admin", "default"), c.path("admin.kubeconfig"))
}

func (c *Cluster) ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err // its certificate is not written yet
	}
	c.Client = client
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// write writes what the server reads when it starts.
func (c *Cluster) write() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	der := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(c.path("accounts.key"), der, 0o600); err != nil {
		return err
	}
	var tokens strings.Builder
	for name, secret := range c.users {
		group := ""
		if name == "admin" {
			group = ",system:masters"
		}
		fmt.Fprintf(&tokens, "%s,%s,%s%s\n", secret, name, name, group)
	}
	return os.WriteFile(c.path("tokens.csv"), []byte(tokens.String()), 0o600)
}

// Kubeconfig writes a file by which a user reaches the cluster, with the context "kubetest", and returns its path.
func (c *Cluster) Kubeconfig(user, namespace string) (string, error) {
	path := c.path(user + "-" + namespace + ".kubeconfig")
	return path, clientcmd.WriteToFile(c.kubeconfig(user, namespace), path)
}

func (c *Cluster) kubeconfig(user, namespace string) clientcmdapi.Config {
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"kubetest": {Server: c.Config.Host, CertificateAuthority: c.Config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: c.users[user]}},
		Contexts:       map[string]*clientcmdapi.Context{"kubetest": {Cluster: "kubetest", AuthInfo: user, Namespace: namespace}},
		CurrentContext: "kubetest",
	}
}

// Stop ends everything, and removes what it wrote.
func (c *Cluster) Stop() {
	for i := len(c.parts) - 1; i >= 0; i-- {
		c.parts[i].Kill()
		_, _ = c.parts[i].Wait()
	}
	os.RemoveAll(c.dir)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// run starts one part of the control plane. It lives until Stop.
func (c *Cluster) run(ctx context.Context, program, name string, args ...string) error {
	p := &part{name: name, said: &bytes.Buffer{}}
	var err error
	p.Process, err = proc.Start(context.WithoutCancel(ctx), proc.Command{
		Path: program, Args: append([]string{name}, args...), Dir: c.dir, Stdout: io.Discard, Stderr: p.said,
	})
	if err == nil {
		c.parts = append(c.parts, p)
	}
	return err
}

// said is the end of what the parts have said, to be read when one of them does not start. It ends them first.
func (c *Cluster) said() error {
	var errs []error
	for _, p := range c.parts {
		p.Kill()
		_, _ = p.Wait()
		text := p.said.String()
		errs = append(errs, fmt.Errorf("%s said:\n%s", p.name, text[max(0, len(text)-2000):]))
	}
	return errors.Join(errs...)
}

func ended(p *proc.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func token() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}

// freePorts are ports that nobody listened on a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:errcheck // nobody has connected
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
