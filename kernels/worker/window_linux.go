package worker

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func newWindow() (*window, error) {
	fd, err := unix.MemfdCreate("gemmaudit-window", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make shared memory for a worker: %w", err)
	}
	w := &window{file: os.NewFile(uintptr(fd), "window")}
	err = w.file.Truncate(windowBytes)
	if err == nil {
		w.data, err = unix.Mmap(fd, 0, windowBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		w.file.Close()
		return nil, fmt.Errorf("make %d bytes of shared memory for a worker: %w", windowBytes, err)
	}
	return w, nil
}

func (w *window) close() error {
	if w.data == nil {
		return nil
	}
	data := w.data
	w.data = nil
	w.file.Close()
	return unix.Munmap(data)
}

// attributes make the process end with the program. A signal of the terminal ends the program, which then ends the
// worker; the worker must not end first, so it has a group of its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
