package cpu

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The test stops a child process in the middle of a block, which must report the lost time.
func TestStoppedProcess(t *testing.T) {
	const variable = "GEMMAUDIT_TEST_STOPPED"
	if os.Getenv(variable) != "" {
		runLongBlock(t)
		return
	}
	if !open(t, 1).tellsLost() {
		t.Skip("this system counts a thread's time in ticks")
	}
	for _, threads := range []string{"1", "2"} {
		// On a busy machine, the stop may hit a thread while it waits and loses no time.
		var problem string
		for range 5 {
			lostMS, blockMS, word := stopInBlock(t, variable+"="+threads)
			if lostMS >= 0.9*1e3*stopped.Seconds() && lostMS <= 1.05*blockMS && word != "nothing" {
				problem = ""
				break
			}
			problem = fmt.Sprintf("%s threads: lost %g of %g ms, %q; it was stopped for %v", threads, lostMS, blockMS, word, stopped)
		}
		if problem != "" {
			t.Error(problem)
		}
	}
}

const stopped = 300 * time.Millisecond

// stopInBlock stops a child process in a block. It returns the lost time and the block's length in ms, and
// the first word of the reason.
func stopInBlock(t *testing.T, variable string) (lostMS, blockMS float64, word string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^TestStoppedProcess$")
	c.Env = append(os.Environ(), variable)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // the block begins
	time.Sleep(100 * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(stopped)
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	if _, err := fmt.Sscan(lines.Text(), &lostMS, &blockMS, &word); err != nil {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	return lostMS, blockMS, word
}

func runLongBlock(t *testing.T) {
	threads := int(os.Getenv("GEMMAUDIT_TEST_STOPPED")[0] - '0')
	dev := open(t, threads)
	l := cube(t, dev, 96, threads)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 1
	for {
		span, err := dev.Execute(ctx, []kernels.Launch{l}, n)
		if err != nil {
			t.Fatal(err)
		}
		if span.Seconds > 0.02 {
			n = int(float64(n) * 0.6 / span.Seconds)
			break
		}
		n *= 4
	}
	fmt.Println("begin")
	span, err := dev.Execute(ctx, []kernels.Launch{l}, max(1, n))
	if err != nil {
		t.Fatal(err)
	}
	word := "nothing"
	if kinds := span.Disturbance.Kinds(); len(kinds) > 0 {
		word = kinds[0]
	}
	fmt.Println(1e3*span.Lost.Seconds(), 1e3*span.Seconds, word)
}

func cube(t *testing.T, dev *Device, size, threads int) kernels.Launch {
	t.Helper()
	g := dev.gemm("naive")
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, size, size), M: size, Threads: threads}
	w, err := g.Prepare(p, fill(t, dev, kernels.FP32, size*size, 2))
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Bind(p, kernels.Operand{Buffer: fill(t, dev, kernels.FP32, size*size, 1)}, w,
		kernels.Operand{Buffer: fill(t, dev, kernels.FP32, size*size, 3)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Threads that wait for a launch with fewer threads lose no time.
func TestWaitingIsNotLost(t *testing.T) {
	dev := open(t, 2)
	if !dev.tellsLost() {
		t.Skip("this system counts a thread's time in ticks")
	}
	var launches []kernels.Launch
	for range 15 {
		launches = append(launches, cube(t, dev, 192, 1))
	}
	launches = append(launches, cube(t, dev, 192, 2))
	// A waiting thread would lose most of a block. Other processes take less than 3/4 of a working thread,
	// unless three share its CPU.
	const most = 0.75
	least := 1.0
	for try := 0; try < 300 && least > most; try++ {
		span, err := dev.Execute(t.Context(), launches, len(launches))
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, span.Lost.Seconds()/span.Seconds)
	}
	if least > most {
		t.Errorf("%.0f %% of each block is lost where one thread waits", 100*least)
	}
}
