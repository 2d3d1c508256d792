package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// rewriter makes of what is right in a container of a service what is right in a process on this machine: names of services become
// addresses, "any address" the service's own, and paths of mounts the paths of what is mounted.
type rewriter struct {
	own       string
	addresses map[string]string
	hosts     *regexp.Regexp
	root      string            // stands for the container's root folder
	mounts    map[string]string // folders of volumes, by their paths in the container
	paths     *regexp.Regexp
}

// newRewriter prepares a service's mounts below the state folder. Files that are mounted are copied, rewritten.
func newRewriter(service types.ServiceConfig, addresses map[string]string, state string) (*rewriter, error) {
	var names []string
	for name := range addresses {
		names = append(names, regexp.QuoteMeta(name))
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	r := &rewriter{
		own: addresses[service.Name], addresses: addresses,
		hosts: regexp.MustCompile(`(^|[^\w.-])(` + strings.Join(names, "|") + `)(:\d)`),
		root:  filepath.Join(state, "services", service.Name),
	}
	r.mounts = map[string]string{}
	var targets []string
	for _, v := range service.Volumes {
		switch v.Type {
		case types.VolumeTypeVolume:
			r.mounts[v.Target] = filepath.Join(state, "volumes", cmp.Or(v.Source, service.Name+strings.ReplaceAll(v.Target, "/", "-")))
			if err := os.MkdirAll(r.mounts[v.Target], 0o755); err != nil {
				return nil, err
			}
		case types.VolumeTypeBind:
			r.mounts[v.Target] = filepath.Join(r.root, v.Target)
		default:
			return nil, fmt.Errorf("%s: a mount of type %s", service.Name, v.Type)
		}
		targets = append(targets, regexp.QuoteMeta(v.Target))
	}
	if len(targets) > 0 {
		r.paths = regexp.MustCompile(`(^|[^\w./-])(` + strings.Join(targets, "|") + `)(/|[^\w.-]|$)`)
	}
	for _, v := range service.Volumes {
		if v.Type == types.VolumeTypeBind {
			if err := r.copy(v.Source, r.mounts[v.Target]); err != nil {
				return nil, fmt.Errorf("%s: %w", service.Name, err)
			}
		}
	}
	return r, nil
}

// text rewrites a file, or part of a command.
func (r *rewriter) text(s string) string {
	s = r.hosts.ReplaceAllStringFunc(s, func(found string) string {
		parts := r.hosts.FindStringSubmatch(found)
		return parts[1] + r.addresses[parts[2]] + parts[3]
	})
	s = strings.ReplaceAll(s, "0.0.0.0", r.own)
	if r.paths == nil {
		return s
	}
	return r.paths.ReplaceAllStringFunc(s, func(found string) string {
		parts := r.paths.FindStringSubmatch(found)
		return parts[1] + r.mounts[parts[2]] + parts[3]
	})
}

// value rewrites the value of a variable or an argument of a health check, which may be nothing but the name of a service.
func (r *rewriter) value(s string) string {
	if address, ok := r.addresses[s]; ok {
		return address
	}
	return r.text(s)
}

func each(all []string, rewrite func(string) string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = rewrite(s)
	}
	return out
}

// copy copies a file, or all files of a folder.
func (r *rewriter) copy(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, []byte(r.text(string(raw))), 0o644)
	})
}
