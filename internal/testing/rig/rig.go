// Package rig finds what tests run beside Sluice's own programs: programs that make builds, or fetches, into the cache folder.
package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program finds a program that a target of make puts into the target's folder in the cache folder.
func Program(target, name string) (string, error) {
	cache := os.Getenv("SLUICE_CACHE")
	if cache == "" {
		found, err := repository()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(found, ".cache")
	}
	path := filepath.Join(cache, target, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no program %s for tests: %w: run `make %s`", name, err, target)
	}
	return path, nil
}

// Installed is as Program, for one that the machine may have itself.
func Installed(target, name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return Program(target, name)
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
