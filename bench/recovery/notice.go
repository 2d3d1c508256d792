package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/bench/internal/job"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	noticeTime = 2 * time.Minute
	linkRate   = 100e6 // bytes a second
	// savedAtNotice are the megabytes that the script saves when it is told to stop. What fits into the notice is scaled from them: twelve
	// times as many are more than a small machine has memory for.
	savedAtNotice = 1000
	bucket        = "bench"
)

// compareNotice measures what is saved within a notice over a slow link, against a plain copy.
func compareNotice(ctx context.Context, o job.Options, s3 string) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	server, err := startS3(ctx, s3)
	if err != nil {
		return err
	}
	l, err := openLink(ctx, server, linkRate)
	if err != nil {
		return err
	}
	o.Store = "s3://" + bucket + "/store?endpoint=http://" + l.address()
	o.Env = append(o.Env, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true")
	ours, err := commitAtNotice(ctx, o)
	if err != nil {
		return err
	}
	plain, err := copyPlainly(ctx, "http://"+l.address()+"/"+bucket+"/copy")
	if err != nil {
		return err
	}
	fits := func(took float64) float64 { return savedAtNotice * noticeTime.Seconds() / took }
	return compare.Show(1,
		compare.Figure{Name: "recovery/notice_mb", Value: fits(ours), Unit: "MB"},
		compare.Figure{Name: "recovery/notice_copy_mb", Value: fits(plain), Unit: "MB"},
		compare.Figure{Name: "recovery/notice_vs_copy", Value: plain / ours, Unit: "ratio", Against: "a plain copy"},
	)
}

// startS3 starts the S3 server of the tests, until ctx ends, and returns its address.
func startS3(ctx context.Context, program string) (string, error) {
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w: `make s3` builds it", err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer ours.Close()
	_, err = proc.Start(ctx, proc.Command{Path: program, Args: []string{"-bucket=" + bucket}, Stdout: theirs})
	theirs.Close()
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(ours).ReadString('\n')
	return strings.TrimPrefix(strings.TrimSpace(line), "http://"), err
}

// commitAtNotice gives a notice, and returns how many seconds pass until what the script saves then has been committed.
func commitAtNotice(ctx context.Context, o job.Options) (float64, error) {
	shape := recovers
	shape.Save, shape.Megabytes = time.Hour, savedAtNotice
	j, err := job.Sluice(ctx, o, shape)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	if _, err := j.Await(ctx, func(s job.Step) bool { return s.Step >= settled }); err != nil {
		return 0, err
	}
	at, err := notice(j)
	if err != nil {
		return 0, err
	}
	committed, err := awaitCommit(ctx, j)
	return committed.Sub(at).Seconds(), err
}

// notice gives node 1 its notice.
func notice(j *job.Job) (at time.Time, err error) {
	_, dir, err := j.Node(1)
	if err != nil {
		return at, err
	}
	at = time.Now()
	return at, protocol.WriteFile(filepath.Join(dir, protocol.NoticeFile), protocol.NodeNotice{Until: at.Add(noticeTime)})
}

// commitLine is what the agent of node 0 logs of a commit.
var commitLine = regexp.MustCompile(`(?m)^time=(\S+) .*msg=committed `)

// awaitCommit returns when the first checkpoint was committed.
func awaitCommit(ctx context.Context, j *job.Job) (time.Time, error) {
	for range poll.Every(ctx, 100*time.Millisecond) {
		logs, err := filepath.Glob(filepath.Join(j.Dir, ".sluice", "logs", "*", "fit", "g1-agent0.log"))
		if err != nil {
			return time.Time{}, err
		}
		for _, path := range logs {
			raw, err := os.ReadFile(path)
			if err != nil {
				return time.Time{}, err
			}
			if found := commitLine.FindSubmatch(raw); found != nil {
				return time.Parse(time.RFC3339Nano, string(found[1]))
			}
		}
	}
	return time.Time{}, errors.Join(errors.New("nothing was committed"), context.Cause(ctx))
}

// copyPlainly puts a file of the size of the checkpoint to an address, and returns how many seconds that takes.
func copyPlainly(ctx context.Context, to string) (float64, error) {
	f, err := os.CreateTemp("", "bench-copy-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Truncate(savedAtNotice * 1_000_000); err != nil {
		return 0, err
	}
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, to, io.NopCloser(f))
	if err != nil {
		return 0, err
	}
	request.ContentLength = savedAtNotice * 1_000_000
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("put %s: %s", to, response.Status)
	}
	return time.Since(began).Seconds(), nil
}
