// Package regular opens files named by users or by other files without blocking. Opening a named pipe without
// a writer, or a terminal, could otherwise block the program and its signal handling.
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

// Error reports a path that is not a regular file.
type Error struct {
	Path string
	Mode fs.FileMode // its type

	unread bool // opening was for writing
}

func (e *Error) Error() string {
	if e.unread {
		return strconv.Quote(e.Path) + " is " + kind(e.Mode) + " without a reader"
	}
	return strconv.Quote(e.Path) + " is " + kind(e.Mode) + ", expected a file"
}

// HintText suggests how to pass a stream; it may be empty.
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

// Open opens a regular file for reading, or an open pipe such as the shell's <(command). Other kinds of files
// give an [*Error], failures to open an [*fs.PathError].
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

func anonymous(f *os.File, mode fs.FileMode) bool {
	if mode&fs.ModeNamedPipe == 0 {
		return false
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return err == nil && strings.HasPrefix(name, "pipe:")
}

// readerWait is the time that a pipe's reader has to start: when a user starts both programs, one comes
// first.
const readerWait = 2 * time.Second

// OpenStream opens a named pipe or device for writing. A pipe without a reader gives an [*Error] after
// [readerWait], because blocking would delay signal handling.
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

// OpenBeside opens a regular file that the program keeps next to another, with the flags of [os.OpenFile]. It
// does not follow symbolic links. Other kinds of files give an [*Error], failures to open an [*fs.PathError].
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
