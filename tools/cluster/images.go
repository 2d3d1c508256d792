package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/compose-spec/compose-go/v2/types"
)

// program is what a service runs as a process.
type program struct {
	args []string
	env  []string
	as   *syscall.Credential // nil for this process's user
}

// images say what stands in for an image: what its entrypoint does with a service's command. A service whose image is not here needs
// containers.
var images = map[string]func(*rewriter, types.ServiceConfig, *program) error{
	"postgres":               preparePostgres,
	"temporalio/admin-tools": func(*rewriter, types.ServiceConfig, *program) error { return nil },
	"temporalio/server":      prepareTemporal,
	"temporalio/ui":          prepareUI,
	"versity/versitygw":      withProgram("versitygw"),
	"prom/prometheus":        withProgram("prometheus"),
	"sluice":                 withProgram("sluice"),
}

// imageOf is the name of a service's image, without its version.
func imageOf(service types.ServiceConfig) string {
	name, _, _ := strings.Cut(service.Image, ":")
	return name
}

// newProgram makes a service a process. nil: it needs containers.
func newProgram(r *rewriter, service types.ServiceConfig) (*program, error) {
	prepare, ok := images[imageOf(service)]
	if !ok {
		return nil, nil
	}
	p := &program{args: each(service.Command, r.text)}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SLUICE_PYTHON_ENV", "SLUICE_GPU"} { // the last two say where what our image has is here
		if v, ok := os.LookupEnv(name); ok {
			p.env = append(p.env, name+"="+v)
		}
	}
	for name, v := range service.Environment {
		if v != nil {
			p.env = append(p.env, name+"="+r.value(*v))
		}
	}
	if len(service.Entrypoint) > 0 {
		p.args = append(each(service.Entrypoint, r.text), p.args...)
	} else if err := prepare(r, service, p); err != nil {
		return nil, err
	}
	var err error
	p.args[0], err = exec.LookPath(p.args[0])
	if err != nil {
		return nil, fmt.Errorf("%w: `make cluster` builds or installs what is needed", err)
	}
	return p, nil
}

// withProgram is an image whose entrypoint is a program.
func withProgram(name string) func(*rewriter, types.ServiceConfig, *program) error {
	return func(_ *rewriter, _ types.ServiceConfig, p *program) error {
		p.args = append([]string{name}, p.args...)
		return nil
	}
}

// prepareTemporal does what the image's entrypoint does: the server listens on the address of its host.
func prepareTemporal(r *rewriter, _ types.ServiceConfig, p *program) error {
	p.args = []string{"temporal-server", "start"}
	p.env = append(p.env, "BIND_ON_IP="+r.own)
	return nil
}

func prepareUI(r *rewriter, _ types.ServiceConfig, p *program) error {
	p.args = []string{"temporal-ui", "--root", filepath.Join(r.root, "home/ui-server"), "--env", "docker", "start"}
	return nil
}

const postgresData = "/var/lib/postgresql/data"

// preparePostgres makes the database's folder as the image's entrypoint does. PostgreSQL refuses to run as root.
func preparePostgres(r *rewriter, service types.ServiceConfig, p *program) error {
	data, ok := r.mounts[postgresData]
	if !ok {
		return fmt.Errorf("no volume at %s", postgresData)
	}
	postgres, err := findPostgres()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.root, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if p.as, err = credential("postgres"); err != nil {
			return fmt.Errorf("PostgreSQL refuses to run as root, and as postgres it cannot: %w", err)
		}
		for _, dir := range []string{data, r.root} {
			if err := os.Chown(dir, int(p.as.Uid), int(p.as.Gid)); err != nil {
				return err
			}
		}
	}
	p.args = append([]string{postgres, "-D", data, "-c", "listen_addresses=" + r.own, "-k", r.root}, p.args...)
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	password := filepath.Join(r.root, "password")
	if err := os.WriteFile(password, []byte(*service.Environment["POSTGRES_PASSWORD"]), 0o644); err != nil {
		return err
	}
	defer os.Remove(password)
	var said bytes.Buffer
	initdb := exec.Command(filepath.Join(filepath.Dir(postgres), "initdb"), "-D", data, //nolint:noctx // Ctrl-C ends it too, and it cleans up
		"--username", *service.Environment["POSTGRES_USER"], "--pwfile", password, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8")
	initdb.Dir, initdb.Stdout, initdb.Stderr = r.root, &said, &said
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, &said)
	}
	return nil
}

// findPostgres finds the server: Debian keeps it out of PATH.
func findPostgres() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		if found, err := exec.LookPath("postgres"); err == nil {
			return found, nil
		}
		return "", errors.New("PostgreSQL is missing: apt-get install postgresql")
	}
	return found[len(found)-1], nil
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
