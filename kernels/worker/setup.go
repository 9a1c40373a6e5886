package worker

import (
	"encoding/json"
	"fmt"
)

// setup collects calls that prepare launches, since a call each would take longer than what it does: a rotation has
// hundreds of weights. What a call makes counts as made when it is added; if it fails, undo takes that back.
type setup struct {
	steps  []step
	filled int // bytes of the window that steps read
}

type step struct {
	call   string
	params any
	result any // may be nil
	undo   func()
}

// mostSteps bounds a call, so that one worker without signs of life within it is not taken for a hang.
const mostSteps = 256

// add adds a call. It makes those so far if they are many; the error may be that of any of them.
func (s *setup) add(w *Worker, call string, params, result any, undo func()) error {
	s.steps = append(s.steps, step{call, params, result, undo})
	if len(s.steps) < mostSteps {
		return nil
	}
	return s.make(w)
}

// window returns free room in the window, and its position there. It makes the calls so far if there is none.
func (s *setup) window(w *Worker) (room []byte, at int, err error) {
	if s.filled == windowBytes {
		if err := s.make(w); err != nil {
			return nil, 0, err
		}
	}
	return w.p.window.data[s.filled:windowBytes], s.filled, nil
}

// make makes the calls in order. The error is that of the first that failed; then none counts as made.
func (s *setup) make(w *Worker) (err error) {
	if len(s.steps) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			s.undo()
		}
		s.clear()
	}()
	params := setupParams{Steps: make([]setupStep, len(s.steps))}
	for i, each := range s.steps {
		params.Steps[i] = setupStep{each.call, each.params}
	}
	var told setupResult
	if err := w.ask("setup", params, &told); err != nil {
		return err
	}
	if len(told.Results) != len(s.steps) {
		return w.broke(fmt.Errorf("it told %d results of setup, expected %d", len(told.Results), len(s.steps)))
	}
	for i, each := range s.steps {
		if each.result == nil {
			continue
		}
		if err := json.Unmarshal(told.Results[i], each.result); err != nil {
			return w.broke(fmt.Errorf("the result of %s: %w", each.call, err))
		}
	}
	return nil
}

// undo takes back what the calls would have made, the last first. The worker forgets what it made of it.
func (s *setup) undo() {
	for i := len(s.steps) - 1; i >= 0; i-- {
		s.steps[i].undo()
	}
	s.clear()
}

func (s *setup) clear() {
	clear(s.steps)
	s.steps, s.filled = s.steps[:0], 0
}
