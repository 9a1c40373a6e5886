package regex

import (
	"fmt"
	"sync"
)

// Pattern is a compiled regular expression. It is immutable and safe for concurrent use.
type Pattern struct {
	insts    []inst
	start    int
	first    first // of a match
	machines sync.Pool
}

// inst is one instruction. Instructions refer to each other by index.
type inst struct {
	op       op
	set      *set
	min, max int      // of opRun; max is -1 without a bound
	next     int      // the following instruction
	sub      int      // start of the subprogram
	branches []branch // of opAlt, in order of preference
}

// branch is one alternative of an opAlt, tried only where its first allows.
type branch struct {
	pc    int
	first first
}

type op uint8

const (
	opMatch      op = iota
	opSet           // one character of set
	opRun           // as many of set as possible up to max, then fewer down to min
	opPossessive    // as many of set as possible up to max, never fewer
	opAlt
	opAhead
	opNot
	opAtomic
)

// Compile compiles a regular expression. Its error names the place of an unsupported construct.
func Compile(expression string) (*Pattern, error) {
	n, err := parse(expression)
	if err != nil {
		return nil, err
	}
	c := &compiler{}
	end := c.emit(inst{op: opMatch})
	start := c.compile(n, end)
	if len(c.insts) > maxInsts {
		return nil, fmt.Errorf("has more than %d steps", maxInsts)
	}
	p := &Pattern{insts: c.insts, start: start, first: c.first(start)}
	p.machines.New = func() any { return &machine{insts: p.insts} }
	return p, nil
}

type compiler struct{ insts []inst }

// emit adds an instruction and returns its index. At the size limit it adds none; Compile rejects such a
// program.
func (c *compiler) emit(i inst) int {
	if len(c.insts) <= maxInsts {
		c.insts = append(c.insts, i)
	}
	return len(c.insts) - 1
}

func (c *compiler) compile(n *node, next int) int {
	if len(c.insts) > maxInsts {
		return 0
	}
	switch n.kind {
	case isSet:
		return c.emit(inst{op: opSet, set: n.set, next: next})
	case isConcat:
		for i := len(n.subs) - 1; i >= 0; i-- {
			next = c.compile(n.subs[i], next)
		}
		return next
	case isAlt:
		var ways []int
		for _, s := range n.subs {
			ways = append(ways, c.compile(s, next))
		}
		return c.alt(ways...)
	case isRepeat:
		return c.repeat(n, next)
	}
	sub := c.compile(n.subs[0], c.emit(inst{op: opMatch}))
	return c.emit(inst{op: map[kind]op{isAhead: opAhead, isNot: opNot, isAtomic: opAtomic}[n.kind], sub: sub, next: next})
}

func (c *compiler) alt(ways ...int) int {
	i := inst{op: opAlt}
	for _, pc := range ways {
		i.branches = append(i.branches, branch{pc, c.first(pc)})
	}
	return c.emit(i)
}

func (c *compiler) repeat(n *node, next int) int {
	body := n.subs[0]
	switch {
	case body.kind == isSet && n.mode == greedy:
		return c.emit(inst{op: opRun, set: body.set, min: n.min, max: n.max, next: next})
	case body.kind == isSet && n.mode == possessive:
		return c.emit(inst{op: opPossessive, set: body.set, min: n.min, max: n.max, next: next})
	case n.mode == possessive:
		again := &node{kind: isRepeat, min: n.min, max: n.max, subs: n.subs}
		return c.compile(&node{kind: isAtomic, subs: []*node{again}}, next)
	}
	choose := func(again, next int) int {
		if n.mode == lazy {
			again, next = next, again
		}
		return c.alt(again, next)
	}
	at := next
	if n.max < 0 {
		// The loop comes first so that the body can jump back to it.
		loop := c.emit(inst{op: opAlt})
		again := c.compile(body, loop)
		first, second := again, next
		if n.mode == lazy {
			first, second = next, again
		}
		if loop < len(c.insts) {
			c.insts[loop].branches = []branch{{first, anything}, {second, anything}}
			c.insts[loop].branches[0].first = c.first(first)
			c.insts[loop].branches[1].first = c.first(second)
		}
		at = loop
	}
	for range n.max - n.min {
		at = choose(c.compile(body, at), next)
	}
	for range n.min {
		at = c.compile(body, at)
	}
	return at
}

type first struct {
	ascii [2]uint64
	other bool // a character above ASCII
	empty bool // the end of the text
}

var anything = first{[2]uint64{^uint64(0), ^uint64(0)}, true, true}

func (f *first) allows(text string, at int) bool {
	switch {
	case at == len(text):
		return f.empty
	case text[at] < 128:
		return f.ascii[text[at]>>6]&(1<<(text[at]&63)) != 0
	}
	return f.other
}

// first returns a superset of how a match from an instruction can begin.
func (c *compiler) first(pc int) first {
	i := c.insts[pc]
	switch i.op {
	case opSet:
		return first{i.set.ascii, true, false}
	case opRun, opPossessive:
		f := first{i.set.ascii, true, false}
		if i.min == 0 {
			f.add(c.first(i.next))
		}
		return f
	case opAlt:
		f := first{}
		for _, b := range i.branches {
			f.add(b.first)
		}
		if len(i.branches) == 0 { // a loop whose branches are not known yet
			return anything
		}
		return f
	case opAtomic, opAhead:
		return c.first(i.sub)
	case opNot:
		return c.first(i.next)
	}
	return anything
}

func (f *first) add(g first) {
	f.ascii[0] |= g.ascii[0]
	f.ascii[1] |= g.ascii[1]
	f.other = f.other || g.other
	f.empty = f.empty || g.empty
}
