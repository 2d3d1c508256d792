// Package rig finds what tests run beside Sluice's own programs: programs of the nested modules in tools/, which make builds into the cache
// folder.
package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Program finds a program that the target of make with its name builds.
func Program(name string) (string, error) {
	cache := os.Getenv("SLUICE_CACHE")
	if cache == "" {
		found, err := repository()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(found, ".cache")
	}
	path := filepath.Join(cache, name, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no program %s for tests: %w: `make %s` builds it", name, err, name)
	}
	return path, nil
}

// repository is the folder above this one that has a Makefile.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "Makefile")); statErr == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no folder above has a Makefile")
	}
	return "", err
}
