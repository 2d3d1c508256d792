package runner_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// The job server runs any command for whom it answers, so it answers nobody beyond this machine, whatever interface it is asked on.
func TestAnswersThisMachineOnly(t *testing.T) {
	jars, err := runner.DefaultJars()
	_, noJars := os.Stat(jars)
	_, noJava := exec.LookPath("java")
	if err := errors.Join(err, noJars, noJava); err != nil {
		rig.Skip(t, err)
	}
	server, err := runner.StartFlink(t.Context(), runner.FlinkConfig{Dir: t.TempDir(), Memory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	_, port, err := net.SplitHostPort(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if !answers(t, net.JoinHostPort("127.0.0.1", port)) {
		t.Error("the job server does not answer on the loopback interface")
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		if at := net.JoinHostPort(ip.String(), port); answers(t, at) {
			t.Errorf("the job server answers at %s", at)
		}
	}
}

// answers reports whether a server of HTTP/2 says anything there.
func answers(t *testing.T, address string) bool {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 1))
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s neither answers nor hangs up", address)
	}
	return n > 0
}
