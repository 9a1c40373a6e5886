package worker

import (
	"fmt"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// copyLaunch is a copy of the device's as the worker's launch.
type copyLaunch struct {
	Copy
	id         int64
	generation int
}

// mostCopies bounds the remembered copies.
const mostCopies = 1 << 14

func (w *Worker) copyLaunch(l kernels.Launch, c Copy) *copyLaunch {
	if have := w.copies[l]; have != nil {
		return have
	}
	if w.copies == nil || len(w.copies) >= mostCopies {
		w.copies = map[kernels.Launch]*copyLaunch{}
	}
	w.copies[l] = &copyLaunch{Copy: c}
	return w.copies[l]
}

func (c *copyLaunch) written() Buffer { return c.To }

func (c *copyLaunch) ensure(w *Worker) (int64, error) {
	from, err := w.open(kernels.Operand{Buffer: c.From})
	if err != nil {
		return 0, err
	}
	to, err := w.open(kernels.Operand{Buffer: c.To})
	if err != nil {
		return 0, err
	}
	if c.id != 0 && c.generation == w.generation {
		return c.id, nil
	}
	id := w.id()
	c.id, c.generation = id, w.generation
	params := copyParams{Launch: id, From: operandText{from, c.FromOffset}, To: operandText{to, c.ToOffset}, Bytes: c.Bytes}
	return id, w.setup.add(w, "bind_copy", params, nil, func() {
		c.id = 0
		w.closing.add(func(all *closeParams) { all.Launches = append(all.Launches, id) })
	})
}

// ready binds launches in the worker, and returns their ids.
func (w *Worker) ready(launches []bound) ([]int64, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	ids := make([]int64, len(launches))
	err := w.together(func() (err error) {
		if err := w.forget(); err != nil {
			return err
		}
		for i, l := range launches {
			if ids[i], err = l.ensure(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	return ids, nil
}

// together makes the set-up that f adds, or none of it after an error.
func (w *Worker) together(f func() error) error {
	if err := f(); err != nil {
		w.setup.undo()
		return err
	}
	return w.setup.make(w)
}

// execute runs a block, after a lead-in if another process used the device last.
func (w *Worker) execute(launches []bound, n int) (kernels.Span, error) {
	ids, err := w.ready(launches)
	if err != nil {
		return kernels.Span{}, err
	}
	leadIn := w.set.turn(w)
	for i, l := range launches {
		if own, ok := l.(*Launch); ok && !w.primed[own.plan()] {
			if _, err := w.primeBound(own, ids[i]); err != nil {
				return kernels.Span{}, err
			}
		}
	}
	var mhz float64
	if clock := w.set.host.Clock; clock != nil {
		mhz = clock()
	}
	var r executeResult
	used, err := w.set.using(func() error { return w.ask("execute", executeParams{ids, n, leadIn}, &r) })
	if err != nil {
		return kernels.Span{}, fmt.Errorf("%s: %w", w.name, err)
	}
	if clock := w.set.host.Clock; clock != nil {
		mhz = (mhz + clock()) / 2
	}
	label := r.text()
	for _, l := range launches {
		if own, ok := l.(*Launch); ok {
			own.label = label
		}
		if b := l.written(); b != nil {
			b.Mirror().newer = w.memory == windowMemory
		}
	}
	if r.ClockMHz > 0 {
		mhz = r.ClockMHz
	}
	span := kernels.Span{Seconds: r.Seconds, ClockMHz: mhz, Ahead: r.Ahead, Host: time.Duration(1e9 * r.Host / float64(n)),
		Lost: time.Duration(1e9 * r.Held)}
	span.Disturbance.HeldUp = span.Lost
	if used > 0 {
		span.Disturbance.Other = fmt.Sprintf("gemmaudit used the CPU for %.1f ms", 1e3*used.Seconds())
	}
	return span, nil
}

// prime runs a launch until it is compiled, tuned and settled.
func (w *Worker) prime(l *Launch) (seconds float64, err error) {
	ids, err := w.ready([]bound{l})
	if err != nil {
		return 0, err
	}
	w.set.turn(w)
	if w.primed[l.plan()] {
		return 0, nil
	}
	return w.primeBound(l, ids[0])
}

// plan identifies what is compiled and tuned once.
type plan struct {
	kernel *Kernel
	task   kernels.Task
}

func (l *Launch) plan() plan { return plan{l.kernel, l.task} }

func (w *Worker) primeBound(l *Launch, id int64) (seconds float64, err error) {
	var r primeResult
	if err := w.ask("prime", primeParams{id}, &r); err != nil {
		return 0, fmt.Errorf("%s: %w", w.name, err)
	}
	if w.primed == nil {
		w.primed = map[plan]bool{}
	}
	w.primed[l.plan()] = true
	if b := l.written(); b != nil {
		b.Mirror().newer = w.memory == windowMemory
	}
	return r.Seconds, nil
}

// leastUsed is the share of a block's time that this process may use the CPU: pipes and the clock.
const leastUsed = 0.02

// using returns the CPU time that this process used while f ran, if it is more than negligible. On a GPU it is 0.
func (s *Set) using(f func() error) (time.Duration, error) {
	if s.host.Quiet == nil {
		return 0, f()
	}
	began, before := time.Now(), cpuTime()
	err := f()
	used := cpuTime() - before
	if used < time.Millisecond || used.Seconds() < leastUsed*time.Since(began).Seconds() {
		used = 0
	}
	return used, err
}

// text is the label of what ran: what the kernel says of itself, then the kernels of a graph. Nodes that copy or
// fill memory are left out, as they are for the program's own launches.
func (r *executeResult) text() string {
	var names []string
	for _, n := range r.Nodes {
		if n.Grid[0] > 0 {
			names = append(names, kernels.SymbolName(oneLine(n.Kernel)))
		}
	}
	text := strings.Join(names, " + ")
	if own := oneLine(r.Label); own != "" {
		text = strings.TrimSuffix(own+": "+text, ": ")
	}
	if r.Eager != "" {
		text = strings.TrimSuffix("eager, "+text, ", ")
	}
	return text
}
