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

// A process that is stopped in the middle of a block says for how long. So that is another
// process.
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
		// Where other processes run, too, the stop may find a thread that waits for another, which loses nothing by it.
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

// stopped is how long a process is stopped.
const stopped = 300 * time.Millisecond

// stopInBlock stops a process of its own in the middle of a block, and returns what that says: how much it lost of how long a
// block, in milliseconds, and the first word of why.
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

// runLongBlock prints when a block begins, and what it lost.
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

// cube binds the naive product of three squares to so many threads.
func cube(t *testing.T, dev *Device, size, threads int) kernels.Launch {
	t.Helper()
	g := dev.gemm("naive")
	p := kernels.Problem{Shape: kernels.Shape{M: size, N: size, K: size}, DType: kernels.FP32, Threads: threads}
	w, err := g.PrepareWeights(p, fill(t, dev, kernels.FP32, size*size, 2))
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Bind(p, kernels.Operand{Buffer: fill(t, dev, kernels.FP32, size*size, 1)}, w, kernels.Operand{Buffer: fill(t, dev, kernels.FP32, size*size, 3)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Kernels of whose launches one has fewer threads than another: those who wait have lost nothing.
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
	// A thread that waits does so for most of a block, however busy the machine is; what another process takes
	// from the thread that works is less than three quarters, unless three of them share its CPU all the time.
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
