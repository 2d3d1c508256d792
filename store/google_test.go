package store_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// google is as much of Google Cloud Storage as its client asks of it, with one bucket.
type google struct {
	mu      sync.Mutex
	objects map[string]gObject
	uploads map[string]*gUpload
	writes  int64
}

type gObject struct {
	Name           string            `json:"name"`
	Bucket         string            `json:"bucket"`
	Size           int64             `json:"size,string"`
	Generation     int64             `json:"generation,string"`
	Metageneration int64             `json:"metageneration,string"`
	Updated        time.Time         `json:"updated"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	data           []byte
}

// gUpload is one that comes in parts.
type gUpload struct {
	object gObject
	absent bool
}

const gBucket = "acme"

// newGoogle starts a server and points Google's client at it.
func newGoogle(t *testing.T) {
	t.Helper()
	g := &google{objects: map[string]gObject{}, uploads: map[string]*gUpload{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /storage/v1/b/"+gBucket+"/o", g.list)
	mux.HandleFunc("GET /storage/v1/b/"+gBucket+"/o/{key}", g.attributes)
	mux.HandleFunc("DELETE /storage/v1/b/"+gBucket+"/o/{key}", g.delete)
	mux.HandleFunc("POST /upload/storage/v1/b/"+gBucket+"/o", g.upload)
	mux.HandleFunc("GET /"+gBucket+"/{key...}", g.read)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(web.URL, "http://"))
}

func gRefuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"code": %d, "message": "no"}}`, status)
}

func gSay(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (g *google) list(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const page = 5 // so that lists have several
	items, next := []gObject{}, ""
	for _, key := range slices.Sorted(maps.Keys(g.objects)) {
		switch {
		case !strings.HasPrefix(key, r.FormValue("prefix")) || key <= r.FormValue("pageToken"):
		case len(items) < page:
			items = append(items, g.objects[key])
		case next == "":
			next = items[page-1].Name
		}
	}
	gSay(w, map[string]any{"kind": "storage#objects", "items": items, "nextPageToken": next})
}

func (g *google) get(w http.ResponseWriter, r *http.Request) (gObject, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, ok := g.objects[r.PathValue("key")]
	if !ok {
		gRefuse(w, http.StatusNotFound)
	}
	return o, ok
}

func (g *google) attributes(w http.ResponseWriter, r *http.Request) {
	if o, ok := g.get(w, r); ok {
		gSay(w, o)
	}
}

func (g *google) read(w http.ResponseWriter, r *http.Request) {
	if o, ok := g.get(w, r); ok {
		w.Header().Set("X-Goog-Generation", strconv.FormatInt(o.Generation, 10))
		http.ServeContent(w, r, "", o.Updated, strings.NewReader(string(o.data)))
	}
}

func (g *google) delete(w http.ResponseWriter, r *http.Request) {
	if _, ok := g.get(w, r); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.objects, r.PathValue("key"))
		w.WriteHeader(http.StatusNoContent)
	}
}

// upload takes an object in one request, or the promise of one in parts.
func (g *google) upload(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("upload_id") {
		g.part(w, r)
		return
	}
	up := &gUpload{absent: r.FormValue("ifGenerationMatch") == "0"}
	if r.FormValue("uploadType") == "resumable" {
		if err := json.NewDecoder(r.Body).Decode(&up.object); err != nil {
			gRefuse(w, http.StatusBadRequest)
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.writes++
		id := strconv.FormatInt(g.writes, 10)
		g.uploads[id] = up
		w.Header().Set("Location", "http://"+r.Host+r.URL.Path+"?"+url.Values{"upload_id": {id}}.Encode())
		return
	}
	_, kind, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		gRefuse(w, http.StatusBadRequest)
		return
	}
	parts := multipart.NewReader(r.Body, kind["boundary"])
	head, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(head).Decode(&up.object)
	}
	if err == nil {
		var content *multipart.Part
		if content, err = parts.NextPart(); err == nil {
			up.object.data, err = io.ReadAll(content)
		}
	}
	if err != nil {
		gRefuse(w, http.StatusBadRequest)
		return
	}
	g.finish(w, up)
}

// part takes one part; the last one says how much all are.
func (g *google) part(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	up := g.uploads[r.URL.Query().Get("upload_id")]
	g.mu.Unlock()
	data, err := io.ReadAll(r.Body)
	if up == nil || err != nil {
		gRefuse(w, http.StatusBadRequest)
		return
	}
	up.object.data = append(up.object.data, data...)
	if strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(up.object.data)-1))
		return
	}
	g.finish(w, up)
}

func (g *google) finish(w http.ResponseWriter, up *gUpload) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := up.object
	if _, taken := g.objects[o.Name]; taken && up.absent {
		gRefuse(w, http.StatusPreconditionFailed)
		return
	}
	g.writes++
	o.Bucket, o.Size, o.Generation, o.Metageneration, o.Updated = gBucket, int64(len(o.data)), g.writes, 1, time.Now().UTC()
	g.objects[o.Name] = o
	gSay(w, o)
}
