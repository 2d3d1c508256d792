package keeper

import (
	"errors"
	"io"
	"strconv"
	"syscall"
	"time"
)

// Spec says what to run. It travels through a socket, so that the keeper's own arguments, which everyone can read, do not show it.
type Spec struct {
	Path string
	Dir  string
	Args []string
	Env  []string
}

// maxSpec is above what execve(2) takes for arguments and environment together.
const maxSpec = 16 << 20

// Encode returns the Spec as strings, each ended by a NUL, which none can hold.
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
	return body, nil
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

// The first byte of a message to a keeper; a number follows.
const (
	start         = 'c' // the size of the Spec that follows; the command's standard streams come with the message
	signalProcess = 'p' // the signal
	signalGroup   = 'g'
)

const (
	headSize    = 1 + intSize
	streamCount = 3
)

// StartMessage returns the bytes that make a keeper start a command. They are sent with the descriptors of its three standard streams.
func StartMessage(spec []byte) []byte {
	return append(appendInt([]byte{start}, len(spec)), spec...)
}

// SignalMessage returns the bytes that make a keeper pass a signal on.
func SignalMessage(group bool, sig syscall.Signal) []byte {
	if group {
		return appendInt([]byte{signalGroup}, int(sig))
	}
	return appendInt([]byte{signalProcess}, int(sig))
}

// command is a command to start.
type command struct {
	spec    []byte
	streams []int
}

// order is a signal to pass on, to the command or to its process group.
type order struct {
	group  bool
	signal syscall.Signal
}

// message is what the parent has sent.
type message struct {
	kind   byte
	number int
	body   []byte // of start
	files  []int
}

// readMessage reads the next message. ok is false at the end of the socket.
func readMessage(fd int) (m message, ok bool) {
	head, control := make([]byte, headSize), make([]byte, syscall.CmsgSpace(streamCount*intSize))
	n, size, _, _, err := syscall.Recvmsg(fd, head, control, syscall.MSG_CMSG_CLOEXEC)
	for err == syscall.EINTR {
		n, size, _, _, err = syscall.Recvmsg(fd, head, control, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n <= 0 || !readFull(fd, head[n:]) {
		return m, false
	}
	if size > 0 {
		parts, err := syscall.ParseSocketControlMessage(control[:size])
		if err != nil || len(parts) != 1 {
			return m, false
		}
		if m.files, err = syscall.ParseUnixRights(&parts[0]); err != nil {
			return m, false
		}
	}
	m.kind, m.number = head[0], decodeInt(head[1:])
	if m.kind != start {
		return m, true
	}
	if m.number < 0 || m.number > maxSpec {
		return m, false
	}
	m.body = make([]byte, m.number)
	return m, readFull(fd, m.body)
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

// report tells the parent one thing, if there is a parent. It is far shorter than the buffer of a socket, so it is written whole.
func report(what byte, first, second, third int) {
	_, _ = syscall.Write(socketFD, appendInt(appendInt(appendInt([]byte{what}, first), second), third))
}

// Numbers are 4 bytes, big-endian, signed. encoding/binary would make this package wait for the initialisers of reflect.
const intSize = 4

func appendInt(b []byte, n int) []byte {
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func decodeInt(b []byte) int {
	return int(int32(b[0])<<24 | int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3]))
}
