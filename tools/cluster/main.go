// Cluster runs a Compose file without containers: each service as a process on a loopback address of its own, with the same command,
// environment and configuration files, in the order of depends_on, restarted and checked as the file says. It ends with Ctrl-C, and
// everything that it started ends with it. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.file, "file", "docker-compose.yml", "the Compose file")
	flag.StringVar(&o.programs, "programs", "", "folders of the programs that images consist of, before those of PATH; separated by colons")
	flag.StringVar(&o.state, "state", ".cluster", "folder of volumes, logs and cluster.json, which says what runs where")
	flag.StringVar(&o.network, "network", "127.20.0", "first three numbers of the services' addresses, within 127.0.0.0/8")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

type options struct {
	file, programs, state, network string
}

// run starts all services and stops them when ctx ends.
func run(ctx context.Context, o options) (err error) {
	if o.state, err = filepath.Abs(o.state); err != nil {
		return err
	}
	project, err := load(ctx, o.file)
	if err != nil {
		return err
	}
	if err := os.Setenv("PATH", o.programs+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	c, err := newCluster(project, o)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.start(ctx); err != nil {
		return err
	}
	if _, err := fmt.Print(c.help()); err != nil {
		return err
	}
	<-ctx.Done()
	say("cluster", "stopping; volumes and logs stay in %s", o.state)
	return nil
}
