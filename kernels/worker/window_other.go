//go:build !linux

package worker

import (
	"errors"
	"syscall"
)

func newWindow() (*window, error) { return nil, errors.New("kernels of another process need Linux") }

func (w *window) close() error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
