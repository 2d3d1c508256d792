package store

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"
	"unicode/utf8"
)

// IrregularError is the error for something under a folder that cannot be stored: it is neither a file nor a link to a file in that folder,
// or its name is not valid UTF-8.
type IrregularError struct {
	// Path is relative to the folder, and slash-separated. It ends with the first name that is not valid UTF-8.
	Path string
	// Why continues a sentence whose subject is the file, such as "is a named pipe".
	Why string
}

func (e *IrregularError) Error() string { return e.Name() + " " + e.Why }

// Name returns the path in printable form.
func (e *IrregularError) Name() string {
	if utf8.ValidString(e.Path) {
		return e.Path
	}
	return strconv.Quote(e.Path)
}

// whyBroken says what is wrong with a link that cannot be followed.
func whyBroken(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is a symbolic link to a file that does not exist"
	case errors.Is(err, syscall.ELOOP):
		return "is a symbolic link that leads back to itself"
	}
	return "is a symbolic link that is absolute or leads out of the folder"
}

func whyIrregular(link bool, mode fs.FileMode) string {
	what := "something other than a file"
	switch {
	case mode.IsDir(): // following it would store files twice, bypass the ignore rules, and never end if it leads upwards
		return "is a symbolic link to a folder, and such links are not followed"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	if link {
		return "is a symbolic link to " + what
	}
	return "is " + what
}
