package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "../../docker-compose.yml"

// ports are those at which each service listens.
var ports = map[string][]string{
	"grafana":          {"3000"},
	"postgres":         {"5432"},
	"prometheus":       {"9090"},
	"s3":               {"7070"},
	"temporal":         {"7233", "7243", "9090"}, // gRPC, HTTP, metrics
	"temporal-ui":      {"8233"},
	"worker":           {"8080", "9464"}, // 8080: the target of examples/spam/environment.yaml
	"worker-stateless": {"9464"},
}

// path is a path in an argument of a command.
var path = regexp.MustCompile(`(?:^|=)(/[^/].*)`)

// Nothing here runs Docker, so what a container would find out too late is checked: files that are mounted exist, and so do the services
// and ports that others are told to connect to. Paths in commands are those of mounts, so that a process stays in its folder.
func TestComposeFile(t *testing.T) {
	project := loadProject(t)
	var names []string
	for name := range project.Services {
		names = append(names, regexp.QuoteMeta(name))
	}
	reference := regexp.MustCompile(`(?:^|[^\w.-])(` + strings.Join(names, "|") + `):(\d+)`)
	for name, service := range project.Services {
		text := strings.Join(slices.Concat(service.Command, service.Entrypoint), "\n")
		for _, v := range service.Environment {
			if v == nil {
				t.Errorf("%s: a variable without a value", name)
				continue
			}
			text += "\n" + *v
		}
		if service.HealthCheck != nil {
			text += "\n" + strings.Join(service.HealthCheck.Test, "\n")
		} else if service.Restart != "" {
			t.Errorf("%s has no health check", name)
		}
		for _, v := range service.Volumes {
			if v.Type == types.VolumeTypeBind {
				text += "\n" + filesIn(t, v.Source)
			}
		}
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(ports[found[1]], found[2]) {
				t.Errorf("%s connects to %s:%s, where nothing listens", name, found[1], found[2])
			}
		}
		for _, arg := range slices.Concat(service.Command, service.Entrypoint) {
			found := path.FindStringSubmatch(arg)
			mounted := func(v types.ServiceVolumeConfig) bool { return strings.HasPrefix(found[1], v.Target) }
			if found != nil && found[1] != "/health" && !slices.ContainsFunc(service.Volumes, mounted) { // /health is a path of the URL
				t.Errorf("%s uses %s, where nothing is mounted", name, found[1])
			}
		}
		for _, p := range service.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q, want loopback alone", name, p.Published, p.HostIP)
			}
			if port := strings.TrimSpace(strings.Split(p.Published, "-")[0]); port != fmt.Sprint(p.Target) {
				t.Errorf("%s publishes port %d as %s, want the same", name, p.Target, port)
			}
		}
		if declared := listensAt(service); !slices.Equal(declared, ports[name]) {
			t.Errorf("%s exposes or publishes the ports %s, and listens at %s", name, declared, ports[name])
		}
		for before := range service.DependsOn {
			if _, ok := project.Services[before]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, before)
			}
		}
		if _, ok := images[imageOf(service)]; !ok && name != "grafana" {
			t.Errorf("%s: `make cluster` does not know the image %s", name, service.Image)
		}
	}
}

// The images are of the versions that `make cluster` runs.
func TestImageVersions(t *testing.T) {
	project := loadProject(t)
	for service, module := range map[string]string{
		"temporal": "go.temporal.io/server", "temporal-schema": "go.temporal.io/server",
		"temporal-ui": "github.com/temporalio/ui-server/v2", "s3": "github.com/versity/versitygw", "s3-bucket": "github.com/versity/versitygw",
	} {
		_, version, _ := strings.Cut(project.Services[service].Image, ":")
		if want := moduleInfo(t, module, "{{.Version}}"); strings.TrimPrefix(version, "v") != strings.TrimPrefix(want, "v") {
			t.Errorf("%s is of version %s, and go.mod has %s %s", service, version, module, want)
		}
	}
}

// Programs ignore variables that they do not know. Each that is set must stand in the source of the program that is to read it, or in the
// documentation of an image or library that has none here.
func TestVariables(t *testing.T) {
	documented := map[string][]string{
		"postgres": {"POSTGRES_USER", "POSTGRES_PASSWORD"},
		"grafana":  {"GF_AUTH_ANONYMOUS_ENABLED", "GF_AUTH_ANONYMOUS_ORG_ROLE", "GF_SECURITY_ADMIN_PASSWORD"},
		"sluice":   {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"},
	}
	server, gateway := moduleInfo(t, "go.temporal.io/server", "{{.Dir}}"), moduleInfo(t, "github.com/versity/versitygw", "{{.Dir}}")
	sources := map[string][]string{
		"temporalio/server":      {server + "/common/config/config_template_embedded.yaml", server + "/common/config/loader.go"},
		"temporalio/admin-tools": {server + "/tools/sql/main.go"},
		"versity/versitygw":      {gateway + "/cmd/versitygw/main.go"},
		"sluice":                 {"../../connect/connect.go", "../../connect/state/store.go", "../../docs/operations.md"},
	}
	for name, service := range loadProject(t).Services {
		image := imageOf(service)
		if image == "grafana/grafana-oss" {
			image = "grafana"
		}
		var text string
		for _, path := range sources[image] {
			text += filesIn(t, path)
		}
		for variable := range service.Environment {
			if !slices.Contains(documented[image], variable) && !strings.Contains(text, `"`+variable+`"`) && !strings.Contains(text, "`"+variable+"`") {
				t.Errorf("%s: %s does not know the variable %s", name, image, variable)
			}
		}
	}
}

func loadProject(t *testing.T) *types.Project {
	t.Helper()
	project, err := load(t.Context(), composeFile)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// filesIn is the text of a file, or of all files of a folder.
func filesIn(t *testing.T, path string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		text.Write(raw)
		text.WriteByte('\n')
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return text.String()
}

func moduleInfo(t *testing.T, module, format string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", format, module).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}
