package keeper

import (
	"syscall"
	"unsafe"
)

func fcntl(fd, cmd, arg int) (int, error) {
	n, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(cmd), uintptr(arg))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func prctl(option, arg uintptr) {
	syscall.Syscall6(syscall.SYS_PRCTL, option, arg, 0, 0, 0, 0)
}

// setName sets the name that ps shows for the calling thread.
func setName(name string) {
	b, err := syscall.BytePtrFromString(name)
	if err != nil {
		return
	}
	syscall.Syscall6(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(b)), 0, 0, 0, 0)
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
