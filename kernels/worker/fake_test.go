package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The test binary is a worker of its own if this variable is set: to how it misbehaves, or "right".
const fakeEnv = "GEMMAUDIT_FAKE_WORKER"

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeEnv); how != "" && os.Getenv("GEMMAUDIT_FAKE_PARENT") != fmt.Sprint(os.Getpid()) {
		if info, err := os.NewFile(3, "requests").Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			(&fake{how: how}).serve()
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// fake is a worker with one fp32 kernel, "plain", of three loops.
type fake struct {
	how      string
	window   []byte
	buffers  map[int64][]byte
	launches map[int64]fakeLaunch
	executed int
}

type fakeLaunch struct {
	m, n, k, lda, ldb, ldc int
	a, b, c                []byte
}

type fakeParams struct {
	Window                                 int64
	Buffer, Bytes, Offset, Launch, Weights int64
	Task                                   fakeTask
	In, Out                                struct{ Buffer, Offset int64 }
	Launches, Buffers                      []int64
	Runs                                   int
	LeadIn                                 bool `json:"lead_in"`
}

type fakeTask struct {
	M             int
	LDA, LDB, LDC int
	Dims          struct{ N, K int }
}

func (f *fake) serve() {
	f.buffers, f.launches = map[int64][]byte{}, map[int64]fakeLaunch{}
	lines := bufio.NewScanner(os.NewFile(3, "requests"))
	lines.Buffer(nil, 1<<26)
	out := os.NewFile(4, "replies")
	weights := map[int64]int64{}
	for lines.Scan() {
		var r struct {
			ID     int64
			Call   string
			Params fakeParams
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		p := r.Params
		var result any = struct{}{}
		var failure map[string]string
		switch r.Call {
		case "hello":
			if f.how == "silent" {
				select {}
			}
			w, err := syscall.Mmap(5, 0, int(p.Window), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			if err != nil {
				panic(err)
			}
			f.window = w
			version := 1
			if f.how == "newer" {
				version = 2
			}
			result = map[string]any{"protocol": version, "runtime": "Fake 1", "memory": "window"}
		case "load":
			name := "plain"
			if f.how == "badly named" {
				name = "Plain"
			}
			result = map[string]any{
				"kernels": []any{map[string]any{"name": name, "operation": "gemm", "dtypes": []string{"fp32"}, "layouts": []string{"nk"},
					"writes": true}},
				"files":    []any{map[string]any{"name": "plain", "sha256": strings.Repeat("ab", 32)}},
				"versions": map[string]string{"fake": "1"}, "settings": map[string]string{"FAKE_FLAG": "on"},
			}
		case "supports":
			if f.how == "refuses odd" && p.Task.M%2 == 1 {
				failure = map[string]string{"kind": "unsupported", "message": "M must be even"}
			}
		case "open":
			f.buffers[p.Buffer] = make([]byte, p.Bytes)
		case "write":
			copy(f.buffers[p.Buffer][p.Offset:], f.window[:p.Bytes])
		case "read":
			copy(f.window[:p.Bytes], f.buffers[p.Buffer][p.Offset:])
		case "prepare":
			weights[p.Weights] = p.Buffer
			result = map[string]any{"bytes": 0, "seconds": 0}
		case "bind":
			t := p.Task
			f.launches[p.Launch] = fakeLaunch{t.M, t.Dims.N, t.Dims.K, t.LDA, t.LDB, t.LDC,
				f.buffers[p.In.Buffer][4*p.In.Offset:], f.buffers[weights[p.Weights]], f.buffers[p.Out.Buffer][4*p.Out.Offset:]}
		case "prime":
			f.launches[p.Launch].run()
			result = map[string]any{"seconds": 1e-3, "runs": 1, "warmup": 1e-3}
		case "execute":
			f.executed++
			fmt.Println("executes\x1b[31m", f.executed)
			switch {
			case f.how == "crash" || f.how == "crash once" && f.first():
				fmt.Fprintln(os.Stderr, "fatal: the kernel is broken")
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			case f.how == "hang":
				select {}
			case f.how == "garbage":
				fmt.Fprintln(out, "Segmentation fault")
			case f.how == "exception":
				failure = map[string]string{"kind": "case", "message": "ValueError: no such tile\nat all", "where": "mine.py:12"}
			}
			began := time.Now()
			for i := range p.Runs {
				f.launches[p.Launches[i%len(p.Launches)]].run()
			}
			ahead := 0
			if p.LeadIn {
				ahead = p.Runs
			}
			result = map[string]any{"seconds": time.Since(began).Seconds(), "ahead": ahead, "graph": false, "label": "three loops"}
		case "close":
			for _, b := range p.Buffers {
				delete(f.buffers, b)
			}
		case "bind_copy", "record":
			failure = map[string]string{"kind": "protocol", "message": "not here"}
		default:
			failure = map[string]string{"kind": "protocol", "message": "unknown call " + r.Call}
		}
		answer := map[string]any{"id": r.ID}
		if failure != nil {
			answer["error"] = failure
		} else {
			answer["result"] = result
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		out.Write(append(text, '\n'))
	}
}

// first is true in the first process of a test, which leaves a mark.
func (f *fake) first() bool {
	mark := os.Getenv("GEMMAUDIT_FAKE_MARK")
	_, err := os.Stat(mark)
	return err != nil && os.WriteFile(mark, nil, 0o600) == nil
}

func (l fakeLaunch) run() {
	a, b, c := floats(l.a), floats(l.b), floats(l.c)
	for i := range l.m {
		for j := range l.n {
			sum := 0.0
			for x := range l.k {
				sum += float64(a[i*l.lda+x]) * float64(b[j*l.ldb+x])
			}
			c[i*l.ldc+j] = float32(sum)
		}
	}
}

func floats(b []byte) []float32 {
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%4 != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}
