// Package regular opens files that are named by people or by other files, and waits for nobody: a
// named pipe without a writer, or a terminal, would hold the program up past its signals.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Error says that something else lies where a file is expected.
type Error struct {
	Path string
	Mode fs.FileMode // its type

	unread bool // it was to be written to
}

func (e *Error) Error() string {
	if e.unread {
		return strconv.Quote(e.Path) + " is " + kind(e.Mode) + " that nobody reads"
	}
	return strconv.Quote(e.Path) + " is " + kind(e.Mode) + ", expected a file"
}

// HintText says how a stream is read.
func (e *Error) HintText() string {
	switch {
	case e.unread:
		return "start what reads it first"
	case e.Mode&fs.ModeNamedPipe != 0:
		return "the shell's <(command) is read, or copy the stream into a file"
	}
	return ""
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a device"
}

// Open opens a file for reading: a regular one, or a pipe that is open already, as a shell's
// <(command) has it. Anything else is an [*Error], what can't be opened an [*fs.PathError].
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !anonymous(f, info.Mode()) {
		err = &Error{Path: path, Mode: info.Mode().Type()}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// anonymous says whether f is a pipe without a name, whose other end exists.
func anonymous(f *os.File, mode fs.FileMode) bool {
	if mode&fs.ModeNamedPipe == 0 {
		return false
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return err == nil && strings.HasPrefix(name, "pipe:")
}

// readerWait is how long a pipe that is written to may be without a reader: who starts both
// programs starts one of them first.
const readerWait = 2 * time.Second

// OpenStream opens a pipe or a device that a person named, for writing. A pipe that nobody reads
// is an [*Error]: to wait for a reader would hold the program up past its signals.
func OpenStream(path string) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) {
			return f, err
		}
		if time.Since(began) > readerWait {
			return nil, &Error{Path: path, Mode: fs.ModeNamedPipe, unread: true}
		}
	}
}

// OpenBeside opens a file that the program keeps beside another, with the flags of
// [os.OpenFile]: a regular one under its own name, since a link might lead anywhere. Anything else is an
// [*Error], what can't be opened an [*fs.PathError].
func OpenBeside(path string, flags int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		if info, failed := os.Lstat(path); failed == nil && !info.Mode().IsRegular() {
			return nil, &Error{Path: path, Mode: info.Mode().Type()}
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{Path: path, Mode: info.Mode().Type()}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
