package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/cmd/gemmaudit/process"
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/draft"
)

// The variables that make the test binary act as the process to signal.
const (
	signalledArgs = "GEMMAUDIT_TEST_SIGNALLED" // the command line, one word a line
	signalledHang = "GEMMAUDIT_TEST_HANGS"     // the file being written when the command hangs; empty for a command that continues
)

// A signal during a command without measurements must give exit code 130, also if the command reaches its
// verdict or never checks its context. No partial file may remain.
func TestSignalEndsCommands(t *testing.T) {
	if args := os.Getenv(signalledArgs); args != "" {
		os.Exit(beSignalled(strings.Split(args, "\n"), os.Getenv(signalledHang)))
	}
	dir := t.TempDir()
	csv, run, shard := filepath.Join(dir, "samples.csv"), filepath.Join(dir, "run.db"), filepath.Join(dir, "shard.db")
	if err := os.WriteFile(csv, manySeries(50, 4, 5), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{run, shard} {
		a := newApp(nil, io.Discard, io.Discard, os.LookupEnv, func() []kernels.Provider { return nil })
		if code := a.main([]string{"import", csv, "--out", out, "-q"}); code != exitClean {
			t.Fatalf("import: exit code %d", code)
		}
	}
	out := filepath.Join(dir, "out")
	for _, args := range [][]string{
		{"audit", run, "--gate", "none"},
		{"diff", run, run, "--no-gate"},
		{"splits", run, "--execute=false"},
		{"report", run, "--out", filepath.Join(out, "report")},
		{"history", run},
		{"fleet", run},
		{"export", run, "--out", filepath.Join(out, "all.csv")},
		{"import", csv, "--out", filepath.Join(out, "again.db")},
		{"explain", "monotonic"},
		{"merge", filepath.Join(out, "all.db"), run, shard, "--accept-mixed"},
	} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/hangs=%v", args[0], hangs), func(t *testing.T) {
				if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o755)); err != nil {
					t.Fatal(err)
				}
				// The limit is for a process that hangs.
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestSignalEndsCommands$")
				c.Env = append(os.Environ(), signalledArgs+"="+strings.Join(args, "\n"))
				if hangs {
					c.Env = append(c.Env, signalledHang+"="+filepath.Join(out, "draft"))
				}
				text, err := c.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
					t.Fatalf("%v, expected exit code %d\n%s", err, exitInterrupted, text)
				}
				left, err := os.ReadDir(out)
				if err != nil {
					t.Fatal(err)
				}
				left = slices.DeleteFunc(left, func(e os.DirEntry) bool {
					return !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".lock")
				})
				if len(left) > 0 {
					t.Errorf("%v is left", left)
				}
			})
		}
	}
}

// beSignalled runs a command line in a process that gets a signal when the command begins. With a path, it
// then hangs with a draft of that file.
func beSignalled(args []string, hangs string) int {
	told := make(chan struct{})
	a := newApp(nil, io.Discard, &listener{heard: told}, os.LookupEnv, func() []kernels.Provider { return nil })
	var once sync.Once
	a.now = func() time.Time {
		once.Do(func() {
			if hangs != "" {
				if _, err := draft.File(hangs); err != nil {
					panic(err)
				}
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				panic(err)
			}
			<-told
			time.Sleep(process.Echo) // the context ends by then at the latest
			if hangs != "" {
				select {}
			}
		})
		return time.Now()
	}
	return a.main(args)
}

type listener struct {
	once  sync.Once
	heard chan struct{}
}

func (l *listener) Write(p []byte) (int, error) {
	l.once.Do(func() { close(l.heard) })
	return len(p), nil
}

func manySeries(series, rows, rounds int) []byte {
	var b strings.Builder
	b.WriteString("device,kernel,dtype,m,n,k,round,us\n")
	for round := range rounds {
		for s := range series {
			for r := range rows {
				m := 32 * (r + 1)
				fmt.Fprintf(&b, "cuda:0,cublas,bf16,%d,%d,%d,%d,%.4f\n", m, 64*(1+s%1024), 64*(1+s/1024), round,
					20+0.1*float64(m)+0.001*float64((7*round+3*r+s)%11))
			}
		}
	}
	return []byte(b.String())
}
