package calibration

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// Models are the constants of one model for all cards, of a struct type that [Card.Decode]
// takes.
type Models[T any] struct {
	name string
	of   func() []fitted[T]
	// used are the constants of the cards that are in use, *T by *Card.
	used *sync.Map
	// tried are the constants of the last card that was tried.
	tried *atomic.Pointer[fitted[T]]
}

type fitted[T any] struct {
	card      *Card
	constants T
}

// Of reads a model of every card when it is first asked for. What is embedded and does
// not fit the type is a mistake of the program, which a test of the model finds: it
// panics.
func Of[T any](model string) Models[T] {
	d := definition{name: model, check: func(c *Card) error { return c.Decode(model, new(T)) }}
	for f := range reflect.TypeFor[T]().Fields() {
		d.constants = append(d.constants, f.Tag.Get("constant"))
	}
	known.Lock()
	defer known.Unlock()
	known.models = append(known.models, d)
	return Models[T]{name: model, used: new(sync.Map), tried: new(atomic.Pointer[fitted[T]]), of: sync.OnceValue(func() []fitted[T] {
		cards, err := Cards()
		if err != nil {
			panic(err)
		}
		all := make([]fitted[T], len(cards))
		for i, c := range cards {
			all[i].card = c
			if err := c.Decode(model, &all[i].constants); err != nil {
				panic(err)
			}
		}
		return all
	})}
}

// For is the model of a card: of its own where [Use] has set one, else of the embedded one of this compute capability (× 10) that is
// nearest to it by multiprocessors and by the bandwidth of memory in bytes a second, 0 where
// that is unknown; of the reference where none has the capability.
func (m Models[T]) For(capability, sms int, bandwidth float64) *T {
	if c := trial.Load(); c != nil {
		return m.try(c)
	}
	if c := measured(capability, sms, bandwidth); c != nil {
		return m.use(c)
	}
	all := m.of()
	return &all[nearest(capability, sms, bandwidth)].constants
}

// try is the model of a card that is tried. Whoever asks at the same time may decode it, too.
func (m Models[T]) try(c *Card) *T {
	if f := m.tried.Load(); f != nil && f.card == c {
		return &f.constants
	}
	f := &fitted[T]{card: c}
	if err := c.Decode(m.name, &f.constants); err != nil {
		panic(err) // a model that was not there when Try checked the card
	}
	m.tried.Store(f)
	return &f.constants
}

// use is the model of a card that is in use.
func (m Models[T]) use(c *Card) *T {
	if constants, ok := m.used.Load(c); ok {
		return constants.(*T)
	}
	constants := new(T)
	if err := c.Decode(m.name, constants); err != nil {
		panic(err) // a model that was not there when Use checked the card
	}
	m.used.Store(c, constants)
	return constants
}

// distance tells how unlike a card is to another: the product of the ratios of what is
// known of both, infinite where the capabilities differ.
func (c *Card) distance(capability, sms int, bandwidth float64) float64 {
	if c.Capability != capability {
		return math.Inf(1)
	}
	ratio := func(a, b float64) float64 {
		if a == b || a <= 0 || b <= 0 {
			return 1
		}
		return max(a/b, b/a)
	}
	return ratio(float64(c.SMs), float64(sms)) * ratio(c.Bandwidth, bandwidth)
}

// Nearest is the embedded card whose constants [Models.For] gives where none is in use.
func Nearest(capability, sms int, bandwidth float64) (*Card, error) {
	cards, err := Cards()
	if err != nil {
		return nil, err
	}
	return cards[nearest(capability, sms, bandwidth)], nil
}

// nearest is the place of that card among [Cards], the earlier one's where two are equally near.
func nearest(capability, sms int, bandwidth float64) int {
	cards, _ := Cards() // whoever asks has read them
	best, least := 0, math.Inf(1)
	for i, c := range cards {
		if far := c.distance(capability, sms, bandwidth); far < least {
			best, least = i, far
		}
		if least == 1 {
			break // this very card
		}
	}
	return best
}

// trial is the card that stands in the place of the embedded ones; nil for none.
var trial atomic.Pointer[Card]

// Try puts the constants of c in the place of those of every card, for the whole program,
// until restore is called, which puts back what was there before. Fitting a model tries
// constants so. c may be changed afterwards: a copy is tried. It is an error when c lacks a
// model that the program reads, or has a constant that is not a positive number.
func Try(c *Card) (restore func(), err error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	before := trial.Swap(c.Clone())
	return func() { trial.Store(before) }, nil
}

// complete returns an error when a model that the program reads is missing or wrong.
func (c *Card) complete() error {
	for _, d := range definitions() {
		if err := d.check(c); err != nil {
			return err
		}
	}
	return nil
}

// Clone is a copy that shares nothing with c.
func (c *Card) Clone() *Card {
	copied := *c
	copied.Measured = maps.Clone(c.Measured)
	copied.Models = maps.Clone(c.Models)
	for name, m := range copied.Models {
		m.Constants = maps.Clone(m.Constants)
		copied.Models[name] = m
	}
	return &copied
}

// definition is what is known of a model that the program reads.
type definition struct {
	name      string
	constants []string // in the order of the struct's fields
	check     func(*Card) error
}

var known struct {
	sync.Mutex
	models []definition
}

// definitions are the models that the program reads.
func definitions() []definition {
	known.Lock()
	defer known.Unlock()
	return slices.Clone(known.models)
}

// Names lists the models that the program reads, sorted.
func Names() []string {
	var names []string
	for _, d := range definitions() {
		names = append(names, d.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Order lists the constants of m, a model of that name, in the order of the struct's fields;
// those that the program does not know come last, sorted.
func (m Model) Order(name string) []string {
	var names []string
	for _, d := range definitions() {
		if d.name == name {
			names = slices.Clone(d.constants)
			break
		}
	}
	names = slices.DeleteFunc(names, func(constant string) bool { _, has := m.Constants[constant]; return !has })
	for _, constant := range slices.Sorted(maps.Keys(m.Constants)) {
		if !slices.Contains(names, constant) {
			names = append(names, constant)
		}
	}
	return names
}
