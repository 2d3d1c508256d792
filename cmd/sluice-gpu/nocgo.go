//go:build !cgo

// Command sluice-gpu reads NVIDIA GPUs by the driver's library, which needs cgo: this build cannot.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "sluice-gpu: built without cgo, which NVIDIA's library needs: install a C compiler and build with CGO_ENABLED=1")
	os.Exit(1)
}
