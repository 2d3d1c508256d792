package ec2

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/internal/proc"
)

// A node works on the disk that its image mounted, if there is one. Nothing can be fetched here, so the script ends right after that choice.
func TestNodeDisk(t *testing.T) {
	for _, tt := range []struct {
		name string
		disk bool
		want string
	}{
		{"the instance's own disk", true, "disk/sluice/node"},
		{"the root disk", false, "home/node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			if tt.disk {
				if err := os.Mkdir(at("disk"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(at("bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"shutdown", "curl"} { // not this machine's
				if err := os.WriteFile(filepath.Join(at("bin"), name), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil { //nolint:gosec // it is run
					t.Fatal(err)
				}
			}
			p, err := proc.Start(t.Context(), proc.Command{
				Path: "/bin/sh", Args: []string{"-c", "config_url=x config_sha256=x\n" + nodeScript, "node.sh", "node"}, Dir: dir,
				Env: []string{
					"PATH=" + at("bin") + ":" + os.Getenv("PATH"), "SLUICE_HOME=" + at("home"), "SLUICE_DISK=" + at("disk"),
					"SLUICE_RUN=" + at("run"), "SLUICE_CONSOLE=" + at("console"),
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			if _, err := os.Stat(at(tt.want)); err != nil {
				console, _ := os.ReadFile(at("console"))
				t.Errorf("%v; the console says %s", err, console)
			}
		})
	}
}
