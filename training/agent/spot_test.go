package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceml/sluice/training/ec2/imds/imdstest"
)

func TestNoticeOfTheMetadataService(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	service := imdstest.Start(t, nil)
	n := &node{config: Config{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		n.hearSpot(ctx, service.URL, time.Millisecond)
	}()
	want := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)
	service.Interrupt(want)
	<-heard
	raw, err := os.ReadFile(filepath.Join(n.config.Dir, NoticeFile))
	if err != nil {
		t.Fatal(err)
	}
	var notice NodeNotice
	if err := json.Unmarshal(raw, &notice); err != nil || !notice.Until.Equal(want) {
		t.Errorf("the notice is %s, %v, want %v", raw, err, want)
	}
}
