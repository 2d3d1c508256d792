package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
)

// maxAnswer bounds how much of Flink's response is read.
const maxAnswer = 16 << 20

// job is a job as Flink lists it.
type job struct {
	ID    string `json:"jid"`
	Name  string `json:"name"`
	State string `json:"state"`
}

// over reports whether the job has ended.
func (j job) over() bool { return slices.Contains([]string{"CANCELED", "FAILED", "FINISHED"}, j.State) }

// CancelFlink cancels the jobs with a name on the cluster at master, and returns when they have ended. It is needed because the job server, when
// told to cancel, only stops waiting for the job. On the cluster, a job's name begins with name.
func CancelFlink(ctx context.Context, master, name string) error {
	asked := map[string]bool{}
	for range poll.Every(ctx, 100*time.Millisecond) {
		jobs, err := jobsOf(ctx, master, name)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if asked[j.ID] {
				continue
			}
			asked[j.ID] = true
			err := call(ctx, http.MethodPatch, master, "/jobs/"+url.PathEscape(j.ID), nil)
			if r, ok := errors.AsType[*refusal](err); ok && (r.status == http.StatusConflict || r.status == http.StatusNotFound) {
				continue // it has ended since it was listed; the next poll confirms it
			} else if err != nil {
				return fmt.Errorf("cancel the Flink job %s: %w", j.ID, err)
			}
		}
		if len(jobs) == 0 {
			return nil
		}
	}
	return ctx.Err()
}

// jobsOf returns the jobs with the name that have not ended.
func jobsOf(ctx context.Context, master, name string) ([]job, error) {
	var all struct {
		Jobs []job `json:"jobs"`
	}
	if err := call(ctx, http.MethodGet, master, "/jobs/overview", &all); err != nil {
		return nil, fmt.Errorf("list the jobs of the Flink cluster: %w", err)
	}
	return slices.DeleteFunc(all.Jobs, func(j job) bool { return j.over() || !strings.HasPrefix(j.Name, name+"-") }), nil
}

// refusal is a response of Flink whose status is not 2xx.
type refusal struct {
	what   string // method and path
	status int
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: %d %s: %.200s", r.what, r.status, http.StatusText(r.status), r.text)
}

// call calls Flink's REST API, and decodes the response into answer unless that is nil.
func call(ctx context.Context, method, master, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+master+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &refusal{what: method + " " + path, status: resp.StatusCode, text: string(text)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
