package keeper

import (
	"syscall"
	"unsafe"
)

// closeOnExec keeps a descriptor from what is started, or fails when it is not open.
func closeOnExec(fd int) error {
	if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, syscall.FD_CLOEXEC); e != 0 {
		return e
	}
	return nil
}

func prctl(option, arg uintptr) error {
	if _, _, e := syscall.Syscall6(syscall.SYS_PRCTL, option, arg, 0, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// setName sets the name that ps shows for the calling thread.
func setName(name string) {
	b, err := syscall.BytePtrFromString(name)
	if err != nil {
		return
	}
	_, _, _ = syscall.Syscall6(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(b)), 0, 0, 0, 0)
}

// readFull fills b from a blocking descriptor and reports whether it could: false means the end, or an error.
func readFull(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
