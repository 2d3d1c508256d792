package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
)

// FlinkConfig configures a job server.
type FlinkConfig struct {
	// Jars is the job server: a single jar with all dependencies, or a folder of jars. Empty: DefaultJars.
	Jars string
	// Master is the address of a Flink cluster, host:port of its REST interface. Empty: the job server runs a cluster inside its own
	// process.
	Master string
	// Dir is a folder for temporary files.
	Dir string
	// Memory bounds the heap of the Java process, in bytes.
	Memory int64
}

// mainClass is the class to start; embedded is the --flink-master of a cluster inside the job server.
const (
	mainClass = "org.apache.beam.runners.flink.FlinkJobServerDriver"
	embedded  = "[local]"
)

// Timeouts of starting and stopping, and how much output goes into errors.
const (
	startTimeout = time.Minute
	stopGrace    = 2 * time.Second
	tailLines    = 40
)

// DefaultJars is the folder that `make flink` fills: flink in $SLUICE_CACHE, or else in sluice in the user's cache folder.
func DefaultJars() (string, error) {
	if cache := os.Getenv("SLUICE_CACHE"); cache != "" {
		return filepath.Join(cache, "flink"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "sluice", "flink"), nil
}

// FlinkServer is a running job server.
type FlinkServer struct {
	// Endpoint is where it serves the job API, host:port.
	Endpoint string
	process  *proc.Process
	tail     *proc.Tail
}

// StartFlink starts a job server and returns when it accepts connections. The server runs until Stop or until this process ends. The end of ctx
// does not stop it, since it is needed to cancel the job.
func StartFlink(ctx context.Context, c FlinkConfig) (*FlinkServer, error) {
	classpath, err := c.classpath()
	if err != nil {
		return nil, err
	}
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	closed, err := writePolicy(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("restrict Flink's job server to this machine: %w", err)
	}
	s := &FlinkServer{Endpoint: net.JoinHostPort("localhost", strconv.Itoa(port)), tail: proc.NewTail(tailLines)}
	s.process, err = proc.Start(context.WithoutCancel(ctx), proc.Command{
		Path: java, Args: append(closed, c.args(classpath, port)...), Stdout: s.tail, Stderr: s.tail, Grace: stopGrace,
	})
	if err != nil {
		return nil, fmt.Errorf("start Flink's job server: %w", err)
	}
	if err := s.awaitPort(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop kills the server and waits until it has exited.
func (s *FlinkServer) Stop() {
	s.process.Kill() // it has nothing to save
	<-s.process.Done()
}

// Ended returns an error with the last output of a server that has exited by itself, or nil if it is running. It waits a moment for a
// server to exit whose connections have just broken.
func (s *FlinkServer) Ended() error {
	select {
	case <-s.process.Done():
	case <-time.After(stopGrace):
		return nil
	}
	exit, err := s.process.Wait()
	how := exit.String()
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("the Flink job server has exited: %s%s", how, s.lastWords())
}

func (s *FlinkServer) lastWords() string {
	if text := strings.TrimSpace(s.tail.String()); text != "" {
		return "; its last output:\n" + text
	}
	return ""
}

// classpath returns Java's classpath.
func (c FlinkConfig) classpath() (string, error) {
	jars := c.Jars
	if jars == "" {
		var err error
		if jars, err = DefaultJars(); err != nil {
			return "", err
		}
	}
	info, err := os.Stat(jars)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the Flink job server is not at %s; fetch it with `make flink` in Sluice's source, which prints its path, or get "+
			"beam-runners-flink-*-job-server from Maven Central, and set its path in clean.flink.job_server of the environment", jars)
	case err != nil:
		return "", err
	case info.IsDir():
		return filepath.Join(jars, "*"), nil
	}
	return jars, nil
}

// opened are the packages of the JDK whose internals Flink uses by reflection.
var opened = []string{
	"java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent",
	"java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch",
}

func (c FlinkConfig) args(classpath string, port int) []string {
	heap := max(c.Memory, 256<<20) >> 20
	// The server transports digests, not rows, so fast compilation matters more than fast code.
	args := []string{fmt.Sprintf("-Xmx%dm", heap), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.io.tmpdir=" + c.Dir, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	for _, name := range opened {
		args = append(args, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	master := c.Master
	master = cmp.Or(master, embedded)
	return append(args, "-cp", classpath, mainClass, "--flink-master="+master, "--job-host=localhost", "--job-port="+strconv.Itoa(port),
		"--artifact-port=0", "--expansion-port=-1", "--artifacts-dir="+filepath.Join(c.Dir, "artifacts"))
}

// CheckFlink returns an error if a job server with these jars cannot run on this machine. Empty jars mean DefaultJars.
func CheckFlink(jars string) error {
	_, javaErr := findJava()
	_, jarsErr := FlinkConfig{Jars: jars}.classpath()
	return errors.Join(javaErr, jarsErr)
}

// findJava returns the java of $JAVA_HOME, or else of PATH.
func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java := filepath.Join(home, "bin", "java")
		if _, err := os.Stat(java); err != nil {
			return "", fmt.Errorf("JAVA_HOME is %s, but %w", home, err)
		}
		return java, nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("the Flink job server needs Java 11 or 17, but java is not in PATH: install default-jre-headless, or set JAVA_HOME")
	}
	return java, nil
}

// freePort finds a free port for the job server, which does not report a port of its own choice. If another process takes the port first,
// the start fails.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port for Flink's job server: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// awaitPort waits until the server accepts connections.
func (s *FlinkServer) awaitPort(ctx context.Context) error {
	tick := time.Tick(50 * time.Millisecond)
	late := time.After(startTimeout)
	for {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.Endpoint); err == nil {
			return conn.Close()
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.process.Done():
			return s.Ended()
		case <-late:
			return fmt.Errorf("the Flink job server is not ready after %s%s", startTimeout, s.lastWords())
		}
	}
}
