package onnx

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// plugin is an execution provider in a library of its own, which ONNX Runtime loads when it is told to.
type plugin struct {
	// name is that of the provider, which is also given to libraries that have none.
	name    string
	library string // path
	// needs are libraries beside it that the dynamic linker would not find there, each before those that need it.
	needs []string
}

// plugins find those that Options may name.
var plugins = map[string]func() (plugin, error){TensorRTRTX: findRTX}

// registered are the libraries that ONNX Runtime has loaded; it keeps them, and takes none twice.
var registered struct {
	sync.Mutex
	plugins []string
}

// appendTo has a session computed by the plugin's provider, on the first of its devices: no provider for a GPU takes several.
// Of the binding's other ways, AppendExecutionProvider knows only the providers that are built into ONNX Runtime.
func (p plugin) appendTo(options *ort.SessionOptions) error {
	if err := p.register(); err != nil {
		return err
	}
	devices, err := ort.GetEpDevices()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(devices, func(d ort.EpDevice) bool { return d.EpName() == p.name })
	if i < 0 {
		return errors.New("it finds no device that it can use")
	}
	return options.AppendExecutionProviderV2(devices[i:i+1], nil)
}

func (p plugin) register() error {
	registered.Lock()
	defer registered.Unlock()
	if slices.Contains(registered.plugins, p.library) {
		return nil
	}
	for _, path := range p.needs {
		if err := loadLibrary(path); err != nil {
			return err
		}
	}
	if err := ort.RegisterExecutionProviderLibrary(p.name, p.library); err != nil {
		return err
	}
	registered.plugins = append(registered.plugins, p.library)
	return nil
}

// loadLibrary loads a shared library into this process, where others that ask for it by its name find it.
func loadLibrary(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	runtime.LockOSThread() // dlerror is of the thread's last call
	defer runtime.UnlockOSThread()
	if C.dlopen(name, C.RTLD_LAZY) == nil {
		return fmt.Errorf("load %s: %s", filepath.Base(path), C.GoString(C.dlerror()))
	}
	return nil
}

// The provider of TensorRT for RTX, as its Python package has it.
const (
	rtxPackage  = "onnxruntime-ep-nv-tensorrt-rtx-cu13"
	rtxFolder   = "onnxruntime_ep_nv_tensorrt_rtx"
	rtxLibrary  = "libonnxruntime_providers_nv_tensorrt_rtx.so"
	rtxProvider = "NvTensorRTRTXExecutionProvider"
)

// findRTX looks for TensorRT for RTX beside ONNX Runtime's own Python package, then in the Python environment.
func findRTX() (plugin, error) {
	var folders []string
	if library, err := FindLibrary(); err == nil && filepath.IsAbs(library) {
		folders = append(folders, filepath.Join(library, "..", "..", "..", rtxFolder))
	}
	for _, env := range PythonEnvironments() {
		found, _ := filepath.Glob(filepath.Join(env, "lib", "python*", "site-packages", rtxFolder)) // no bad pattern
		folders = append(folders, found...)
	}
	for _, dir := range folders {
		p := plugin{name: rtxProvider, library: filepath.Join(dir, rtxLibrary)}
		if _, err := os.Stat(p.library); err != nil {
			continue
		}
		for _, pattern := range []string{"libcudart.so.*", "libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*"} {
			if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
				p.needs = append(p.needs, slices.Max(found))
			}
		}
		return p, nil
	}
	return plugin{}, fmt.Errorf("there is no %s in the Python environment (%s)", filepath.Join(rtxFolder, rtxLibrary), strings.Join(PythonEnvironments(), ", "))
}
