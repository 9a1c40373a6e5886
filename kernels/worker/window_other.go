//go:build !linux

package worker

import (
	"errors"
	"os"
	"syscall"
)

const windowBytes = 16 << 20

type window struct {
	file *os.File
	data []byte
}

func newWindow() (*window, error) { return nil, errors.New("kernels of another process need Linux") }

func (w *window) close() error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
