// Package flink starts the job server through which Beam graphs are run on Apache Flink: a Java process, which also is the Flink
// cluster unless it is given the address of one.
package flink

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

// Config says how a job server is started.
type Config struct {
	// Jars is the job server: a jar that holds all of it, or a folder of jars. Empty: DefaultJars.
	Jars string
	// Master is the address of a Flink cluster, host:port of its REST interface. Empty: a cluster of its own inside the job server.
	Master string
	// Dir is a folder for its temporary files.
	Dir string
	// Memory bounds the heap of the Java process, in bytes.
	Memory int64
}

// The names of what is looked for.
const (
	mainClass = "org.apache.beam.runners.flink.FlinkJobServerDriver"
	embedded  = "[local]"
)

// The bounds of starting and stopping.
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

// Server is a running job server.
type Server struct {
	// Endpoint is where it serves the job API, host:port.
	Endpoint string
	process  *proc.Process
	tail     *proc.Tail
}

// Start starts a job server and returns when it serves. It ends by Stop or with this process, but not with ctx, since a job that is
// to be canceled needs it.
func Start(ctx context.Context, c Config) (*Server, error) {
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
	s := &Server{Endpoint: net.JoinHostPort("localhost", strconv.Itoa(port)), tail: proc.NewTail(tailLines)}
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

// Stop stops it and waits until it is gone.
func (s *Server) Stop() {
	s.process.Kill() // it has nothing to save
	<-s.process.Done()
}

// Ended returns an error with the last words of a server that has ended by itself, or nil while it runs. A server whose connections
// have broken is given a moment to be gone.
func (s *Server) Ended() error {
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

func (s *Server) lastWords() string {
	if text := strings.TrimSpace(s.tail.String()); text != "" {
		return "; its last output:\n" + text
	}
	return ""
}

// classpath is what Java is told to load.
func (c Config) classpath() (string, error) {
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

// opened are the packages of Java's own that Flink reaches into.
var opened = []string{
	"java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent",
	"java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch",
}

func (c Config) args(classpath string, port int) []string {
	heap := max(c.Memory, 256<<20) >> 20
	// It carries digests and no rows, so that Java does better to compile soon than to compile well.
	args := []string{fmt.Sprintf("-Xmx%dm", heap), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.io.tmpdir=" + c.Dir, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	for _, name := range opened {
		args = append(args, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	master := c.Master
	master = cmp.Or(master, embedded)
	return append(args, "-cp", classpath, mainClass, "--flink-master="+master, "--job-host=localhost", "--job-port="+strconv.Itoa(port),
		"--artifact-port=0", "--expansion-port=-1", "--artifacts-dir="+filepath.Join(c.Dir, "artifacts"))
}

// Check says what a job server of these jars lacks on this machine; no jars are DefaultJars.
func Check(jars string) error {
	_, javaErr := findJava()
	_, jarsErr := Config{Jars: jars}.classpath()
	return errors.Join(javaErr, jarsErr)
}

// findJava returns the Java of $JAVA_HOME, or else of PATH.
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

// freePort finds a port for the job server, which does not say which it took of itself. Whoever takes it in between makes the start fail.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port for Flink's job server: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// awaitPort waits until the server takes connections.
func (s *Server) awaitPort(ctx context.Context) error {
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
