package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
)

// operandSets are the sets that a launch's operands come from.
type operandSets struct{ in, stored int }

// seedOf returns the seed of a set; set 0 has the check's own.
func seedOf(seed uint64, set int) uint64 { return seed + uint64(set)*0x5851f42d4c957f2d }

// replayCase is a task with as many sets of operands as its check needs. at is a byte of the output's buffer.
type replayCase interface {
	// content returns the buffers of a set; stored is nil if nothing is stored.
	content(set int) (in, stored []byte, err error)
	// names returns what in and stored are called.
	names() (in, stored string)
	// output returns the buffer of the output before a launch, and the type of its elements.
	output() (blank []byte, d DType)
	// starts returns the elements at which in and out begin.
	starts() (in, out int)
	// outside returns the first byte that was written outside of the output, or -1.
	outside(got []byte) int
	// wrong returns the elements that differ from the output of these operands.
	wrong(of operandSets, got []byte) (at []int, err error)
	// fits reports whether elements are those of other operands.
	fits(of operandSets, got []byte, at []int) (bool, error)
	// failure describes a wrong element, of so many.
	failure(of operandSets, got []byte, at, wrong int, detail string) error
}

// replayFirst checks a kernel's recorded launches before the rest of its check, so that nothing that the kernel keeps
// from other launches of the task hides what it keeps from the recording. A wrong result that the replay can't explain is
// reported by the rest, or comes from the replay alone.
func replayFirst(k Kernel, has bool, replay func(Recorder) (plain bool, err error), rest func() error) error {
	r, ok := k.(Recorder)
	if !ok || !has {
		return rest()
	}
	plain, failed := replay(r)
	if failed != nil && !plain {
		return failed
	}
	if err := rest(); err != nil {
		return err
	}
	return failed
}

// What a replay did wrong.
const (
	replayedOnly = "right when called, wrong when its recording is replayed"
	replayUnset  = "the replay did not write it"
	replayDrifts = "it differs from replay to replay: not written, read before it was written, or not deterministic"
)

// replayRuns are the sizes of the executed blocks. Each launch runs once, then twice.
var replayRuns = []int{2, 4}

type replayRun struct {
	device   Device
	task     Task
	of       replayCase
	packs    bool
	launches []Launch
	ins      [2]Buffer
	stored   [2]Buffer
	outs     [2]Buffer
	closers  []func() error

	turn  int // index in replayRuns
	got   [2][]byte
	wrong [2][]int
	found [2]*operandSets // of the output; nil if unknown
}

// checkReplay records two launches with operands of the sets 2 and 3, and runs them with the sets 0 and 1, then with 1
// and 0. Weights that the kernel packs when it prepares them are those of 0 and 1 throughout. plain is true for a wrong
// result that is not explained by what the kernel computed with or left out.
func checkReplay(ctx context.Context, d Device, k Recorder, t Task, of replayCase) (plain bool, err error) {
	r := &replayRun{device: d, task: t, of: of, packs: Packs(k, t)}
	defer func() {
		for i := len(r.closers) - 1; i >= 0; i-- {
			err = errors.Join(err, r.closers[i]())
		}
	}()
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("check: %s/%s/%s/%v: %s: %w", d.Spec().ID, k.Name(), t.DType, t, CheckReplay, err)
	}
	for i := range r.outs {
		if err := r.bind(k, i); err != nil {
			return fail(err)
		}
	}
	if err := k.Record(ctx, r.launches); err != nil {
		return fail(err)
	}
	for turn, n := range replayRuns {
		r.turn = turn
		if err := r.execute(ctx, n); err != nil {
			return fail(err)
		}
		plain, err := r.judge()
		if plain && err != nil {
			drifts, failed := r.drifts(ctx, n)
			if failed != nil {
				return fail(failed)
			}
			if drifts != nil {
				return false, drifts
			}
		}
		if err != nil {
			return plain, err
		}
	}
	return false, nil
}

// drifts runs the launches again after a wrong result, and returns an error if an element changes: memory of a kernel's
// own output that nothing wrote may have any content.
func (r *replayRun) drifts(ctx context.Context, n int) (drifts, err error) {
	before, wrong := r.got, r.wrong
	_, d := r.of.output()
	for range 3 {
		if err := r.execute(ctx, n); err != nil {
			return nil, err
		}
		for i, got := range r.got {
			for _, at := range wrong[i] {
				if !bytes.Equal(got[at:at+d.Size()], before[i][at:at+d.Size()]) {
					return r.of.failure(r.own(i), got, at, len(wrong[i]), replayDrifts), nil
				}
			}
		}
	}
	return nil, nil
}

// fill uploads content to a buffer, allocating it if nil.
func (r *replayRun) fill(b *Buffer, content []byte) (err error) {
	if content == nil {
		return nil
	}
	if *b == nil {
		if *b, err = r.device.Alloc(int64(len(content))); err != nil {
			return err
		}
		r.closers = append(r.closers, (*b).Close)
	}
	return (*b).Upload(0, content)
}

// bind makes launch i with the operands of the recording.
func (r *replayRun) bind(k Kernel, i int) error {
	blank, _ := r.of.output()
	in, stored, err := r.of.content(2 + i)
	if err == nil && r.packs {
		_, stored, err = r.of.content(i)
	}
	if err == nil {
		err = errors.Join(r.fill(&r.ins[i], in), r.fill(&r.stored[i], stored), r.fill(&r.outs[i], blank))
	}
	if err != nil {
		return err
	}
	w, err := k.Prepare(r.task, r.stored[i])
	if err != nil {
		return err
	}
	r.closers = append(r.closers, w.Close)
	inAt, outAt := r.of.starts()
	l, err := k.Bind(r.task, Operand{r.ins[i], inAt}, w, Operand{r.outs[i], outAt})
	r.launches = append(r.launches, l)
	return err
}

// own returns the operands of launch i.
func (r *replayRun) own(i int) operandSets {
	turned := (i + r.turn) % 2
	if r.packs {
		return operandSets{turned, i}
	}
	return operandSets{turned, turned}
}

func (r *replayRun) execute(ctx context.Context, n int) error {
	blank, _ := r.of.output()
	for i := range r.outs {
		own := r.own(i)
		in, _, err := r.of.content(own.in)
		if err == nil {
			err = errors.Join(r.fill(&r.ins[i], in), r.fill(&r.outs[i], blank))
		}
		if err == nil && !r.packs {
			var stored []byte
			if _, stored, err = r.of.content(own.stored); err == nil {
				err = r.fill(&r.stored[i], stored)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.device.Execute(ctx, r.launches, n); err != nil {
		return err
	}
	for i, out := range r.outs {
		r.got[i] = make([]byte, len(blank))
		if err := out.Download(0, r.got[i]); err != nil {
			return err
		}
	}
	return nil
}

// judge compares both outputs with their references.
func (r *replayRun) judge() (plain bool, err error) {
	first := -1 // wrong launch
	for i, got := range r.got {
		own := r.own(i)
		if at := r.of.outside(got); at >= 0 {
			return true, r.of.failure(own, got, at, 1, "written outside of the output when its recording is replayed, not when called")
		}
		if r.wrong[i], err = r.of.wrong(own, got); err != nil {
			return false, err
		}
		if len(r.wrong[i]) > 0 && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return false, nil
	}
	for i := range r.got {
		if r.found[i], err = r.sourceOf(i); err != nil {
			return false, err
		}
	}
	i, at, detail := r.explain(first)
	if plain = detail == ""; plain {
		detail = replayedOnly
	}
	return plain, r.of.failure(r.own(i), r.got[i], at, len(r.wrong[i]), detail)
}

// explain says why launch i is wrong; detail is empty if unknown.
func (r *replayRun) explain(i int) (launch, at int, detail string) {
	names := [2]string{"first", "second"}
	for j := range r.got {
		at, n := r.unwritten(j)
		switch other := 1 - j; {
		case n == 0:
		case r.found[other] != nil && *r.found[other] == r.own(j):
			return j, at, fmt.Sprintf("the %s launch wrote into the output of the %s", names[j], names[other])
		default:
			return j, at, replayUnset
		}
	}
	at = r.wrong[i][0]
	a, b := r.found[0], r.found[1]
	switch {
	case a != nil && b != nil && *a == *b:
		of, when := a.in%2, ""
		if a.in >= 2 {
			when = ", of the recording"
		} else {
			of = (of + r.turn) % 2
		}
		return i, at, fmt.Sprintf("both launches gave the %s one's result%s: it is cached by shape", names[of], when)
	case r.turn == 0 && a != nil && b != nil && *a == r.own(1) && *b == r.own(0):
		return i, at, "each launch gave the other's result"
	case r.found[i] == nil:
		return i, at, ""
	}
	return i, at, r.stale(i, *r.found[i])
}

// stale describes a launch that computed with other operands than its own.
func (r *replayRun) stale(i int, found operandSets) string {
	own := r.own(i)
	in, stored := r.of.names()
	a, b := r.origin(i, found.in, own.in), r.origin(i, found.stored, own.stored)
	switch {
	case stored == "" || b == "":
		return fmt.Sprintf("the replay computed with %s of %s: copied or cached", in, a)
	case a == "":
		return fmt.Sprintf("the replay computed with %s of %s: packed, cached or copied weights", stored, b)
	case a == b:
		return fmt.Sprintf("the replay computed with %s and %s of %s: copied or cached", in, stored, b)
	}
	return fmt.Sprintf("the replay computed with %s of %s and %s of %s: copied or cached", in, a, stored, b)
}

// origin says where a set of operands that launch i took for its own one comes from; empty if it is.
func (r *replayRun) origin(i, set, own int) string {
	switch {
	case set == own:
		return ""
	case set == 2+i:
		return "the recording"
	case set >= 2:
		return "the other launch's recording"
	case r.turn > 0 && set == i:
		return "the replay before"
	}
	return "the other launch"
}

// unwritten counts the wrong elements of launch i that were not written, and returns the byte of the first. A kernel's
// own output begins as NaN, or as bytes 0x5a: see [Recorder].
func (r *replayRun) unwritten(i int) (first, n int) {
	blank, d := r.of.output()
	size := d.Size()
	for _, at := range r.wrong[i] {
		element := r.got[i][at : at+size]
		if !bytes.Equal(element, blank[at:at+size]) && !bytes.Equal(element, bytes.Repeat([]byte{0x5a}, size)) &&
			!math.IsNaN(valueAt(d, element, 0)) {
			continue
		}
		if n == 0 {
			first = at
		}
		n++
	}
	return first, n
}

// mostLooked limits the elements that explain a wrong output.
const mostLooked = 64

// sourceOf returns the operands that launch i computed with, or nil if they are unknown.
func (r *replayRun) sourceOf(i int) (*operandSets, error) {
	own := r.own(i)
	wrong := r.wrong[i]
	if len(wrong) == 0 {
		return &own, nil
	}
	var looked []int
	for j := range min(mostLooked, len(wrong)) {
		looked = append(looked, wrong[j*len(wrong)/min(mostLooked, len(wrong))])
	}
	// The simplest first: where one operand does not matter, several fit.
	// The likeliest first: several may fit where an operand does not matter.
	_, name := r.of.names()
	var all []operandSets
	for _, set := range []int{2 + i, i, 1 - i, 3 - i} {
		all = append(all, operandSets{set, set})
		if name != "" {
			all = append(all, operandSets{own.in, set}, operandSets{set, own.stored})
		}
	}
	for in := range 4 {
		for stored := range 4 {
			if name != "" {
				all = append(all, operandSets{in, stored})
			}
		}
	}
	for _, of := range all {
		if of == own {
			continue
		}
		fits, err := r.of.fits(of, r.got[i], looked)
		if err != nil {
			return nil, err
		}
		if fits {
			return &of, nil
		}
	}
	return nil, nil
}
