package worker

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestFileCacheOf(t *testing.T) {
	size, none := spec.Size(1<<30), spec.Size(0)
	for _, tt := range []struct {
		pool  spec.LocalPool
		store string
		want  spec.Size
	}{
		{spec.LocalPool{}, "s3://acme/sluice", 50 << 30},
		{spec.LocalPool{}, "file:///home/me/.sluice/store", 0},
		{spec.LocalPool{FileCache: &size}, "file:///mnt/nfs/store", size},
		{spec.LocalPool{FileCache: &size}, "gs://acme", size},
		{spec.LocalPool{FileCache: &none}, "s3://acme/sluice", 0},
	} {
		if got := fileCacheOf(&tt.pool, tt.store); got != tt.want {
			t.Errorf("%+v with %s: %s, want %s", tt.pool, tt.store, got, tt.want)
		}
	}
}
