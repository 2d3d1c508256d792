package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

func TestRewrite(t *testing.T) {
	state, config := t.TempDir(), filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("target: db:5432\nfile: /etc/app/rules\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newRewriter(types.ServiceConfig{Name: "app", ContainerSpec: types.ContainerSpec{Volumes: []types.ServiceVolumeConfig{
		{Type: types.VolumeTypeVolume, Source: "data", Target: "/data"},
		{Type: types.VolumeTypeVolume, Target: "/own/one"},
		{Type: types.VolumeTypeBind, Source: config, Target: "/etc/app/config.yaml"},
	}}}, map[string]string{"app": "127.20.0.2", "app-two": "127.20.0.3", "db": "127.20.0.4"}, state)
	if err != nil {
		t.Fatal(err)
	}
	data, mounted := filepath.Join(state, "volumes/data"), filepath.Join(state, "services/app/etc/app/config.yaml")
	for text, want := range map[string]string{
		"db:5432":                        "127.20.0.4:5432",
		"s3://app?at=http://app-two:70/": "s3://app?at=http://127.20.0.3:70/",
		"my-db:5432 db.local:1 app":      "my-db:5432 db.local:1 app",
		"--listen=0.0.0.0:80":            "--listen=127.20.0.2:80",
		"--dir=/data/x /data":            "--dir=" + data + "/x " + data,
		"--own=/own/one":                 "--own=" + filepath.Join(state, "volumes/app-own-one"),
		"/database /var/data":            "/database /var/data",
		"--config=/etc/app/config.yaml":  "--config=" + mounted,
	} {
		if got := r.text(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	if got := r.value("db"); got != "127.20.0.4" {
		t.Errorf("the value db becomes %s", got)
	}
	raw, err := os.ReadFile(mounted)
	if want := "target: 127.20.0.4:5432\nfile: /etc/app/rules\n"; err != nil || string(raw) != want {
		t.Errorf("the mounted file is %q, %v, want %q", raw, err, want)
	}
}
