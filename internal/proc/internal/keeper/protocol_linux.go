package keeper

import (
	"errors"
	"io"
	"strconv"
	"syscall"
	"time"
)

// Spec says what to run. It travels through a pipe, so that the keeper's own arguments, which everyone can read, do not show it.
type Spec struct {
	Path string
	Dir  string
	Args []string
	Env  []string
}

// maxSpec is above what execve(2) takes for arguments and environment together.
const maxSpec = 16 << 20

// Encode returns the Spec as the keeper reads it: a length in 4 bytes, then strings, each ended by a NUL, which none can hold.
func (s Spec) Encode() ([]byte, error) {
	fields := append([]string{s.Path, s.Dir, strconv.Itoa(len(s.Args))}, s.Args...)
	fields = append(fields, s.Env...)
	var body []byte
	for _, f := range fields {
		if _, err := syscall.BytePtrFromString(f); err != nil {
			return nil, errors.New("an argument or environment variable contains a NUL byte")
		}
		body = append(append(body, f...), 0)
	}
	if len(body) > maxSpec {
		return nil, syscall.E2BIG
	}
	return append(appendInt(nil, len(body)), body...), nil
}

func readSpec(fd int) (Spec, error) {
	var head [intSize]byte
	if !readFull(fd, head[:]) {
		return Spec{}, syscall.EPIPE
	}
	size := decodeInt(head[:])
	if size < 0 || size > maxSpec {
		return Spec{}, syscall.E2BIG
	}
	body := make([]byte, size)
	if !readFull(fd, body) {
		return Spec{}, syscall.EPIPE
	}
	return decodeSpec(body)
}

func decodeSpec(body []byte) (Spec, error) {
	var fields []string
	start := 0
	for i, c := range body {
		if c == 0 {
			fields = append(fields, string(body[start:i]))
			start = i + 1
		}
	}
	if len(fields) < 3 || start != len(body) {
		return Spec{}, syscall.EINVAL
	}
	args, err := strconv.Atoi(fields[2])
	if err != nil || args < 0 || args > len(fields)-3 {
		return Spec{}, syscall.EINVAL
	}
	return Spec{Path: fields[0], Dir: fields[1], Args: fields[3 : 3+args], Env: fields[3+args:]}, nil
}

const orderSize = 2

// order is a signal to pass on, to the command or to its process group.
type order struct {
	group  bool
	signal syscall.Signal
}

// EncodeOrder returns the bytes that make a keeper pass a signal on.
func EncodeOrder(group bool, sig syscall.Signal) []byte {
	b := []byte{0, byte(sig)}
	if group {
		b[0] = 1
	}
	return b
}

func decodeOrder(b [orderSize]byte) order {
	return order{group: b[0] == 1, signal: syscall.Signal(b[1])}
}

// The first byte of a report; three numbers follow.
const (
	started = 's' // the command's pid
	failed  = 'f' // errno of the start
	ended   = 'e' // wait status, how many processes could not be killed, and how many milliseconds ago the command ended
)

const reportSize = 1 + 3*intSize

// unknownStatus stands for the wait status of a command that could not be killed.
const unknownStatus = -1

// Report is what a keeper tells the parent.
type Report struct {
	// PID is the command's, when it has started.
	PID int
	// Failed is why it could not start.
	Failed syscall.Errno
	// Left is how many of the command and its descendants could not be killed, at the end.
	Left int
	// Status is how the command ended; Known is false before, and when it is itself among those left.
	Status syscall.WaitStatus
	Known  bool
	// Ago is how long before the report the command itself ended: killing what it left takes time.
	Ago time.Duration
}

// ReadReport reads one report; io.EOF when no keeper is left to send one.
func ReadReport(r io.Reader) (Report, error) {
	var b [reportSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Report{}, err
	}
	first, second, third := decodeInt(b[1:]), decodeInt(b[1+intSize:]), decodeInt(b[1+2*intSize:])
	switch b[0] {
	case started:
		return Report{PID: first}, nil
	case failed:
		return Report{Failed: syscall.Errno(first)}, nil
	case ended:
		return Report{
			Left: second, Status: syscall.WaitStatus(first), Known: first != unknownStatus,
			Ago: time.Duration(third) * time.Millisecond,
		}, nil
	}
	return Report{}, errors.New("unknown report from a keeper: " + strconv.Quote(string(b[:])))
}

// report tells the parent one thing, if there is a parent. It is far shorter than PIPE_BUF, so it is written whole.
func report(what byte, first, second, third int) {
	_, _ = syscall.Write(statusFD, appendInt(appendInt(appendInt([]byte{what}, first), second), third))
}

// Numbers are 4 bytes, big-endian, signed. encoding/binary would make this package wait for the initialisers of reflect.
const intSize = 4

func appendInt(b []byte, n int) []byte {
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func decodeInt(b []byte) int {
	return int(int32(b[0])<<24 | int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3]))
}
