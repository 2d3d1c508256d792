// Command kube is a Kubernetes control plane for tests, and the etcd under it, in one program: its first argument says which of them it
// is. They are the very programs that a cluster runs, built from the sources of their releases, since those who build Sluice have a Go
// module proxy but perhaps no registry to take binaries from.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) < 2 {
		usage()
	}
	which := os.Args[1]
	os.Args = append([]string{which}, os.Args[2:]...)
	if which == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, ok := commands[which]
	if !ok {
		usage()
	}
	os.Exit(cli.Run(command()))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kube etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]")
	os.Exit(2)
}
