package worker

import (
	"fmt"
	"time"
)

// A worker may print as much as it likes at first, and a few lines a second for long. A kernel that prints in every
// call would hide everything else.
const (
	floodBurst = 200
	floodRate  = 5 // lines a second
)

// flood passes on lines, and counts those that are too many.
type flood struct {
	log     func(string)
	now     func() time.Time
	room    float64
	at      time.Time
	dropped int
}

func newFlood(log func(string), now func() time.Time) *flood {
	return &flood{log: log, now: now, room: floodBurst, at: now()}
}

func (f *flood) line(text string) {
	now := f.now()
	f.room = min(floodBurst, f.room+floodRate*now.Sub(f.at).Seconds())
	f.at = now
	if f.room < 1 {
		f.dropped++
		return
	}
	f.room--
	f.end()
	f.log(text)
}

// end tells how many lines were dropped.
func (f *flood) end() {
	if f.dropped > 0 {
		f.log(fmt.Sprintf("(more lines: %d)", f.dropped))
		f.dropped = 0
	}
}
