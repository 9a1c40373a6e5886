package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
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
		requests := os.NewFile(3, "requests") // one for each descriptor: a second would close it when collected
		if info, err := requests.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			(&fake{how: how}).serve(requests)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// fake is a worker with one fp32 kernel, "plain", of three loops; of grouped products if its how begins with "grouped".
type fake struct {
	how      string
	out      *os.File
	window   []byte
	buffers  map[int64][]byte
	weights  map[int64]int64
	launches map[int64]fakeLaunch
	executed int
}

type fakeLaunch struct {
	m, n, k, lda, ldb, ldc int
	a, b, c                []byte
	groups                 []int // rows of each; nil for a single product
	scaled                 func()
}

type fakeParams struct {
	Window                        int64 // of hello its size, of write a position
	Buffer, Bytes, Offset, Launch int64
	Weights                       numbers
	Task                          fakeTask
	In, Out                       struct{ Buffer, Offset int64 }
	Launches, Buffers             []int64
	Runs                          int
	LeadIn                        bool `json:"lead_in"`
	Steps                         []struct {
		Call   string
		Params fakeParams
	}
}

// numbers are one of prepare and bind, or those of close.
type numbers []int64

func (n *numbers) UnmarshalJSON(text []byte) error {
	var one int64
	if json.Unmarshal(text, &one) == nil {
		*n = numbers{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int64)(n))
}

type fakeTask struct {
	Operation     string
	M             int
	GroupRows     []int `json:"group_rows"`
	LDA, LDB, LDC int
	Dims          struct{ N, K, Groups int }
	Scales        *struct{ At, LD, Groups, Group int }
	Weights       struct {
		Columns  int
		ScalesAt int `json:"scales_at"`
	}
}

func (f *fake) serve(requests *os.File) {
	f.buffers, f.launches, f.weights = map[int64][]byte{}, map[int64]fakeLaunch{}, map[int64]int64{}
	lines := bufio.NewScanner(requests)
	lines.Buffer(nil, 1<<26)
	f.out = os.NewFile(4, "replies")
	for lines.Scan() {
		var r struct {
			ID     int64
			Call   string
			Params fakeParams
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		answer := map[string]any{"id": r.ID}
		if result, failure := f.answer(r.Call, r.Params); failure != nil {
			answer["error"] = failure
		} else {
			answer["result"] = result
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		f.out.Write(append(text, '\n'))
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

// answer makes a call.
func (f *fake) answer(call string, p fakeParams) (result any, failure map[string]string) {
	result = struct{}{}
	switch call {
	case "hello":
		if f.how == "silent" {
			select {}
		}
		w, err := syscall.Mmap(5, 0, int(p.Window), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			panic(err)
		}
		f.window = w
		version := 2
		if f.how == "newer" {
			version++
		}
		result = map[string]any{"protocol": version, "runtime": "Fake 1", "memory": "window"}
	case "load":
		name, operation := "plain", "gemm"
		if strings.HasPrefix(f.how, "grouped") {
			operation = "grouped"
		}
		dtypes, weights := []string{"fp32"}, []string(nil)
		if strings.Contains(f.how, "scaled") {
			dtypes, weights = []string{"fp8"}, []string{"fp8"}
		}
		if f.how == "badly named" {
			name = "Plain"
		}
		result = map[string]any{
			"kernels": []any{map[string]any{"name": name, "operation": operation, "dtypes": dtypes, "layouts": []string{"nk"},
				"writes": true, "packs": f.how == "packs", "weights": weights}},
			"files":    []any{map[string]any{"name": "plain", "sha256": strings.Repeat("ab", 32)}},
			"versions": map[string]string{"fake": "1"}, "settings": map[string]string{"FAKE_FLAG": "on"},
		}
	case "supports":
		if f.how == "refuses odd" && p.Task.M%2 == 1 {
			failure = map[string]string{"kind": "unsupported", "message": "M must be even"}
		}
	case "setup":
		if f.how == "counts setups" {
			fmt.Println("setup of", len(p.Steps))
		}
		results := []any{}
		for _, step := range p.Steps {
			one, failed := f.answer(step.Call, step.Params)
			if failed != nil {
				return nil, failed
			}
			results = append(results, one)
		}
		if f.how == "forgets a step" {
			results = results[1:]
		}
		result = map[string]any{"results": results}
	case "open":
		f.buffers[p.Buffer] = make([]byte, p.Bytes)
	case "write":
		copy(f.buffers[p.Buffer][p.Offset:], f.window[p.Window:][:p.Bytes])
	case "read":
		copy(f.window[:p.Bytes], f.buffers[p.Buffer][p.Offset:])
	case "prepare":
		f.weights[p.Weights[0]] = p.Buffer
		result = map[string]any{"bytes": 0, "seconds": 0}
		if f.how == "packs" {
			result = map[string]any{"bytes": 4096, "seconds": 0.5}
		}
	case "bind":
		if f.how == "binds later" && f.first() {
			return nil, map[string]string{"kind": "case", "message": "RuntimeError: not yet"}
		}
		t := p.Task
		if t.Scales != nil {
			f.launches[p.Launch] = fakeLaunch{scaled: f.scaled(p)}
			break
		}
		l := fakeLaunch{t.M, t.Dims.N, t.Dims.K, t.LDA, t.LDB, t.LDC,
			f.buffers[p.In.Buffer][4*p.In.Offset:], f.buffers[f.weights[p.Weights[0]]], f.buffers[p.Out.Buffer][4*p.Out.Offset:], nil, nil}
		if t.Operation == "grouped" {
			if len(t.GroupRows) != t.Dims.Groups {
				return nil, map[string]string{"kind": "protocol", "message": "rows of other groups"}
			}
			l.lda, l.ldb, l.ldc, l.groups = t.Dims.K, t.Dims.K, t.Dims.N, f.groups(t.GroupRows)
		}
		f.launches[p.Launch] = l
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
			fmt.Fprintln(f.out, "Segmentation fault")
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
	case "record":
	case "bind_copy":
		failure = map[string]string{"kind": "protocol", "message": "not here"}
	default:
		failure = map[string]string{"kind": "protocol", "message": "unknown call " + call}
	}
	return result, failure
}

// first is true in the first process of a test, which leaves a mark.
func (f *fake) first() bool {
	mark := os.Getenv("GEMMAUDIT_FAKE_MARK")
	_, err := os.Stat(mark)
	return err != nil && os.WriteFile(mark, nil, 0o600) == nil
}

// groups are the rows of each group, as the worker takes them.
func (f *fake) groups(rows []int) []int {
	rows = slices.Clone(rows)
	switch f.how {
	case "grouped by the neighbours' weights":
		rows = append(rows[1:], rows[0])
	case "grouped evenly":
		sum := 0
		for _, n := range rows {
			sum += n
		}
		for i := range rows {
			rows[i] = sum/len(rows) + min(1, max(0, sum%len(rows)-i))
		}
	}
	return rows
}

func (l fakeLaunch) run() {
	if l.scaled != nil {
		l.scaled()
		return
	}
	if l.groups == nil {
		l.product()
		return
	}
	row := 0
	for i, rows := range l.groups {
		one := l
		one.m, one.a, one.b, one.c = rows, l.a[4*row*l.k:], l.b[4*i*l.n*l.k:], l.c[4*row*l.n:]
		one.product()
		row += rows
	}
}

func (l fakeLaunch) product() {
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
