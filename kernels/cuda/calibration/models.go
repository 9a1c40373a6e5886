package calibration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Models are the constants of one model for all cards, of a struct type for [Card.Decode].
type Models[T any] struct {
	name string
	of   func() []fitted[T]
	// constants of the last tried card
	tried *atomic.Pointer[fitted[T]]
}

type fitted[T any] struct {
	card      *Card
	constants T
}

// Of returns the constants of a model, decoded for every card at first use. It panics if an embedded card
// does not match the type, which is a programming error.
func Of[T any](model string) Models[T] {
	known.Lock()
	defer known.Unlock()
	known.models = append(known.models, definition{model, func(c *Card) error { return c.Decode(model, new(T)) }})
	return Models[T]{name: model, tried: new(atomic.Pointer[fitted[T]]), of: sync.OnceValue(func() []fitted[T] {
		cards := Cards()
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

// For returns the model of a card: the embedded card of this compute capability (× 10) with the most similar
// multiprocessors and bandwidth in bytes per second (0 if unknown). Without a card of the capability it is
// the reference. A card set by [Try] comes first.
func (m Models[T]) For(capability, sms int, bandwidth float64) *T {
	if c := trial.Load(); c != nil {
		return m.try(c)
	}
	all := m.of()
	return &all[nearest(capability, sms, bandwidth)].constants
}

// try returns the model of a tried card. Concurrent callers may decode it twice.
func (m Models[T]) try(c *Card) *T {
	if f := m.tried.Load(); f != nil && f.card == c {
		return &f.constants
	}
	f := &fitted[T]{card: c}
	if err := c.Decode(m.name, &f.constants); err != nil {
		panic(err) // a model registered after Try checked the card
	}
	m.tried.Store(f)
	return &f.constants
}

// distance is the product of the ratios of the known properties of two cards, infinite if the capabilities
// differ.
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

// Nearest returns the embedded card that [Models.For] uses.
func Nearest(capability, sms int, bandwidth float64) *Card {
	return Cards()[nearest(capability, sms, bandwidth)]
}

func nearest(capability, sms int, bandwidth float64) int {
	best, least := 0, math.Inf(1)
	for i, c := range Cards() {
		if far := c.distance(capability, sms, bandwidth); far < least {
			best, least = i, far
		}
		if least == 1 {
			break // this very card
		}
	}
	return best
}

// trial replaces the embedded cards; nil if unset.
var trial atomic.Pointer[Card]

// Try replaces the constants of every card with a copy of c, for the whole program, until restore is called.
// restore puts back the previous state. Fits use it to try constants. It returns an error if c lacks a model
// that the program reads, or has a constant that is not a positive number.
func Try(c *Card) (restore func(), err error) {
	for _, d := range definitions() {
		if err := d.check(c); err != nil {
			return nil, err
		}
	}
	before := trial.Swap(c.Clone())
	return func() { trial.Store(before) }, nil
}

// ID identifies a set of constants: twelve hexadecimal digits derived from the models' constants only.
func (c *Card) ID() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		constants := c.Models[name].Constants
		for _, constant := range slices.Sorted(maps.Keys(constants)) {
			q := constants[constant]
			fmt.Fprintf(sum, "%q %q %g %q\n", name, constant, q.Value, q.Unit)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Clone returns a deep copy.
func (c *Card) Clone() *Card {
	copied := *c
	copied.Models = maps.Clone(c.Models)
	for name, m := range copied.Models {
		m.Constants = maps.Clone(m.Constants)
		copied.Models[name] = m
	}
	return &copied
}

type definition struct {
	name  string
	check func(*Card) error
}

var known struct {
	sync.Mutex
	models []definition
}

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
