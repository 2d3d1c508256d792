package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// load reads a Compose file, with .env beside it and the variables of this process.
func load(ctx context.Context, file string) (*types.Project, error) {
	o, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv)
	if err != nil {
		return nil, err
	}
	project, err := o.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return project, nil
}

// inOrder returns the names of all services, each after those that it depends on.
func inOrder(project *types.Project) []string {
	var order []string
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(order, name) {
			return
		}
		for _, before := range slices.Sorted(slices.Values(project.Services[name].GetDependencies())) {
			visit(before)
		}
		order = append(order, name)
	}
	for _, name := range project.ServiceNames() {
		visit(name)
	}
	return order
}

// listensAt returns the ports at which a service listens: those that it publishes, and those that other services know.
func listensAt(service types.ServiceConfig) []string {
	ports := slices.Clone(service.Expose)
	for _, p := range service.Ports {
		ports = append(ports, fmt.Sprint(p.Target))
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
