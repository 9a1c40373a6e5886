package worker

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A process that reads nothing is ended when the pipe to it is full, at the start and in a call.
func TestProcessThatReadsNothing(t *testing.T) {
	const limit = 100 * time.Millisecond
	long := bytes.Repeat([]byte("x"), 1<<20)
	_, err := startProcess(command{path: "sleep", args: []string{"60"}, first: long}, nil, limit)
	if err == nil || !strings.Contains(err.Error(), "no code within 100ms") || !errors.Is(err, kernels.ErrProcessLost) {
		t.Errorf("at the start: %v", err)
	}
	p, err := startProcess(command{path: "sleep", args: []string{"60"}}, nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	err = p.call("load", string(long), nil, limit, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "no answer within 100ms") || p.alive() {
		t.Errorf("in a call: %v, alive: %v", err, p.alive())
	}
}
