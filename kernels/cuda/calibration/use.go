package calibration

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// inUse are the cards that stand in the place of the embedded ones, each for cards that are told
// apart from it by nothing that plans know. The slice is never changed, only replaced.
var inUse struct {
	sync.Mutex
	cards   atomic.Pointer[[]*Card]
	edition atomic.Uint64
}

// farthest is how many times a constant may be that of the nearest embedded card, or a part of it. The
// clocks, bandwidths and latencies of cards do not differ by as much, and plans can be computed from all that is nearer.
const farthest = 100

// Plausible returns an error when c lacks a model that the program reads, or has a constant that
// no card has. What is read from a file that anybody may have written is used only after that.
func (c *Card) Plausible() error {
	if err := c.complete(); err != nil {
		return err
	}
	like, err := Nearest(c.Capability, c.SMs, c.Bandwidth)
	if err != nil {
		return err
	}
	for _, name := range Names() {
		m := c.Models[name]
		for _, constant := range m.Order(name) {
			value, usual := m.Constants[constant].Value, like.Models[name].Constants[constant].Value
			if !(math.Abs(math.Log(value/usual)) <= math.Log(farthest)) {
				return fmt.Errorf("calibration of %s: model %s: %s is %v, expected about %v as on %s", c.Card, name, constant, value, usual, like.Card)
			}
		}
	}
	return nil
}

// same says whether c has what plans know of a card.
func (c *Card) same(capability, sms int, bandwidth float64) bool {
	return c.Capability == capability && c.SMs == sms && c.Bandwidth == bandwidth
}

// Use puts the constants of c in the place of the embedded ones, for cards of its compute
// capability, multiprocessors and bandwidth. c may be changed afterwards: a copy is used. It is an
// error when c is not plausible, or when constants of a card of another name stand there.
func Use(c *Card) error {
	if err := c.Plausible(); err != nil {
		return err
	}
	inUse.Lock()
	defer inUse.Unlock()
	if other := measured(c.Capability, c.SMs, c.Bandwidth); other != nil && other.Card != c.Card {
		return fmt.Errorf("calibration of %s: plans can't tell it from %s, whose constants are in use", c.Card, other.Card)
	}
	replace(c.Capability, c.SMs, c.Bandwidth, c.Clone())
	return nil
}

// Drop puts the embedded constants back in their place for such cards.
func Drop(capability, sms int, bandwidth float64) {
	inUse.Lock()
	defer inUse.Unlock()
	if measured(capability, sms, bandwidth) != nil {
		replace(capability, sms, bandwidth, nil)
	}
}

// replace sets the card that is in use for such cards, none where it is nil; the caller holds the lock.
func replace(capability, sms int, bandwidth float64, c *Card) {
	var cards []*Card
	if before := inUse.cards.Load(); before != nil {
		cards = slices.DeleteFunc(slices.Clone(*before), func(other *Card) bool { return other.same(capability, sms, bandwidth) })
	}
	if c != nil {
		cards = append(cards, c)
	}
	if len(cards) == 0 {
		inUse.cards.Store(nil)
	} else {
		inUse.cards.Store(&cards)
	}
	inUse.edition.Add(1)
}

// measured is the card that is in use for such cards; nil for none.
func measured(capability, sms int, bandwidth float64) *Card {
	cards := inUse.cards.Load()
	if cards == nil {
		return nil
	}
	for _, c := range *cards {
		if c.same(capability, sms, bandwidth) {
			return c
		}
	}
	return nil
}

// InForce is a copy of the card whose constants [Models.For] gives while none is tried. used says that
// [Use] has set it.
func InForce(capability, sms int, bandwidth float64) (c *Card, used bool, err error) {
	if c := measured(capability, sms, bandwidth); c != nil {
		return c.Clone(), true, nil
	}
	if c, err = Nearest(capability, sms, bandwidth); err != nil {
		return nil, false, err
	}
	return c.Clone(), false, nil
}

// Edition is another number whenever [Use] or [Drop] have changed what is in force: plans that were made
// before are to be made anew.
func Edition() uint64 { return inUse.edition.Load() }
