package regex

import "unicode/utf8"

// Each splits text, which must be UTF-8, into the pattern's matches, leftmost first, and the text between
// them. It calls yield for each non-empty part in order; match tells the two apart.
func (p *Pattern) Each(text string, yield func(start, stop int, match bool)) {
	m := p.machines.Get().(*machine)
	m.text = text
	done := 0
	for at := 0; at < len(text); {
		end := -1
		if p.first.allows(text, at) {
			end = m.match(p.start, at)
		}
		if end < 0 {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		if done < at {
			yield(done, at, false)
		}
		yield(at, end, true)
		at, done = end, end
	}
	if done < len(text) {
		yield(done, len(text), false)
	}
	m.text = ""
	p.machines.Put(m)
}

type machine struct {
	insts []inst
	text  string
	stack []thread
}

// thread is an untried instruction at a place: at each character's start from pos down to least.
type thread struct{ pc, pos, least int }

// ways are the tried instructions and places. All of them failed, since a success ends the match.
type ways map[[2]int]struct{}

func (w ways) tried(pc, pos int) bool {
	if _, ok := w[[2]int{pc, pos}]; ok {
		return true
	}
	w[[2]int{pc, pos}] = struct{}{}
	return false
}

// patience is the number of threads, beyond a few per byte read, after which a match records failed ways.
// Known patterns stay below it; above, time is proportional to instructions times bytes instead of
// exponential.
const patience = 1000

func (m *machine) match(pc, pos int) int {
	base := len(m.stack)
	m.stack = append(m.stack, thread{pc, pos, pos})
	threads, furthest, origin := 0, pos, pos
	var failed ways
	for len(m.stack) > base {
		top := &m.stack[len(m.stack)-1]
		pc, pos := top.pc, top.pos
		if pos > top.least {
			_, size := utf8.DecodeLastRuneInString(m.text[:pos])
			top.pos -= size
		} else {
			m.stack = m.stack[:len(m.stack)-1]
		}
		threads++
		if threads > patience+8*(furthest-origin) {
			if failed == nil {
				failed = ways{}
			}
			if failed.tried(pc, pos) {
				continue
			}
		}
		end, matched := m.follow(pc, pos, failed)
		if matched {
			m.stack = m.stack[:base]
			return end
		}
		furthest = max(furthest, end)
	}
	return -1
}

// follow executes instructions until the program matches or one fails, and pushes the alternatives on the
// stack. It returns the place reached. If failed ways are recorded, a repeated choice also fails.
func (m *machine) follow(pc, pos int, failed ways) (end int, matched bool) {
	for first := true; ; first = false {
		i := &m.insts[pc]
		switch i.op {
		case opMatch:
			return pos, true
		case opSet:
			n := i.set.one(m.text[pos:])
			if n == 0 {
				return pos, false
			}
			pos += n
		case opRun, opPossessive:
			least, furthest, ok := i.run(m.text, pos)
			if !ok {
				return furthest, false
			}
			if i.op == opRun && furthest > least {
				_, size := utf8.DecodeLastRuneInString(m.text[:furthest])
				m.stack = append(m.stack, thread{i.next, furthest - size, least})
			}
			pos = furthest
		case opAlt:
			if failed != nil && !first && failed.tried(pc, pos) {
				return pos, false
			}
			chosen := -1
			for b := len(i.branches) - 1; b >= 0; b-- {
				if !i.branches[b].first.allows(m.text, pos) {
					continue
				}
				if chosen >= 0 {
					m.stack = append(m.stack, thread{chosen, pos, pos})
				}
				chosen = i.branches[b].pc
			}
			if chosen < 0 {
				return pos, false
			}
			pc = chosen
			continue
		case opAhead, opNot:
			if (m.match(i.sub, pos) >= 0) != (i.op == opAhead) {
				return pos, false
			}
		case opAtomic:
			stop := m.match(i.sub, pos)
			if stop < 0 {
				return pos, false
			}
			pos = stop
		}
		pc = i.next
	}
}

// one returns the size of text's first character if it is in the set, otherwise 0.
func (s *set) one(text string) int {
	if text == "" {
		return 0
	}
	if c := text[0]; c < utf8.RuneSelf {
		if s.ascii[c>>6]&(1<<(c&63)) != 0 {
			return 1
		}
		return 0
	}
	r, size := utf8.DecodeRuneInString(text)
	if !s.slow(r) {
		return 0
	}
	return size
}

// run returns the shortest and longest ends of a run of the set from pos, and whether the run has the minimum
// length.
func (i *inst) run(text string, pos int) (least, furthest int, ok bool) {
	least = pos
	for n := 0; n != i.max; n++ {
		if n == i.min {
			least = pos
		}
		size := i.set.one(text[pos:])
		if size == 0 {
			return least, pos, n >= i.min
		}
		pos += size
	}
	if i.max == i.min {
		least = pos
	}
	return least, pos, true
}
