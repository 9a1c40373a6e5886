package health

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Card is what a device told of itself.
type Card struct {
	ID    string // "cuda:0"
	State kernels.CardState
	Err   error // why there is no state
}

// cardsOf asks every device that can tell.
func cardsOf(devices []kernels.Device) []Card {
	var out []Card
	for _, d := range devices {
		if t, ok := d.(kernels.CardTeller); ok {
			state, err := t.CardState()
			out = append(out, Card{d.Spec().ID, state, err})
		}
	}
	return out
}

// checkCards looks at each card. What is in order is one line a card; a host may
// have sixteen.
func checkCards(m *machine) []Finding {
	var out []Finding
	for _, c := range m.Cards {
		if c.Err != nil {
			out = append(out, Finding{"gpu", Note, c.ID + ": its clock, power and neighbours can't be read: " + c.Err.Error(),
				"each block measures the clock for itself; throttling and other load stay unseen"})
			continue
		}
		s := &c.State
		before := len(out)
		for _, check := range []func(*kernels.CardState) []Finding{
			throttled, heldClock, powerCap, hot, memoryErrors, shared, neighbours, persistence, link,
		} {
			for _, f := range check(s) {
				f.Seen = c.ID + ": " + f.Seen
				f.Hint = strings.ReplaceAll(f.Hint, "BUS", s.BusID)
				out = append(out, f)
			}
		}
		severity := Note
		if len(out) == before {
			severity = OK
		}
		out = append(out, Finding{"gpu", severity, c.ID + ": " + cardInWords(s), ""})
	}
	return out
}

// cardInWords is a card's state in one line.
func cardInWords(s *kernels.CardState) string {
	var words []string
	add := func(known bool, format string, args ...any) {
		if known {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	rest := ""
	if s.Idle {
		rest = " at rest"
	}
	add(s.ClockMHz > 0 && s.MaxClockMHz > 0, "%.0f of %.0f MHz%s", s.ClockMHz, s.MaxClockMHz, rest)
	add(s.PowerW > 0 && s.PowerLimitW > 0, "%.0f of %.0f W", s.PowerW, s.PowerLimitW)
	add(s.TempC > 0, "%.0f °C", s.TempC)
	add(s.ECC != "", "ECC %s", s.ECC)
	add(s.ComputeMode != "", "compute mode %s", s.ComputeMode)
	byReason := map[string][]string{}
	var reasons []string
	for _, u := range s.Unknown {
		if byReason[u.Reason] == nil {
			reasons = append(reasons, u.Reason)
		}
		byReason[u.Reason] = append(byReason[u.Reason], u.Name)
	}
	for _, why := range reasons {
		words = append(words, fmt.Sprintf("unknown: %s (%s)", strings.Join(byReason[why], ", "), why))
	}
	return strings.Join(words, ", ")
}

// throttled: while a card rests, nothing should slow it down.
func throttled(s *kernels.CardState) []Finding {
	if len(s.Throttle) == 0 {
		return nil
	}
	return []Finding{{"gpu throttling", Warning, "the clock is held down just now: " + string(kernels.Throttled(s.Throttle...)),
		"wait until the card is cool and idle, and see `nvidia-smi -q -d PERFORMANCE -i BUS`"}}
}

// heldShare is the share of its highest clock below which a busy card that gives
// no reason is taken to be held there.
const heldShare = 0.9

// heldClock looks for a clock that somebody has set.
func heldClock(s *kernels.CardState) []Finding {
	const check = "gpu clock"
	switch {
	case s.ApplicationClockMHz > 0 && s.ApplicationClockMHz < s.DefaultClockMHz:
		return []Finding{{check, Warning, fmt.Sprintf("the application clock is set to %.0f MHz, %.0f MHz is its default", s.ApplicationClockMHz, s.DefaultClockMHz),
			"sudo nvidia-smi -rac -i BUS"}}
	case !s.Idle && len(s.Throttle) == 0 && s.ClockMHz > 0 && s.ClockMHz < heldShare*s.MaxClockMHz:
		return []Finding{{check, Note, fmt.Sprintf("%.0f of %.0f MHz though nothing throttles the card: the clock may be locked", s.ClockMHz, s.MaxClockMHz),
			"sudo nvidia-smi -rgc -i BUS undoes a lock; with one, compare cycles"}}
	}
	return nil
}

func powerCap(s *kernels.CardState) []Finding {
	if s.PowerLimitW <= 0 || s.PowerLimitW >= s.DefaultPowerLimitW {
		return nil
	}
	return []Finding{{"gpu power", Warning, fmt.Sprintf("capped at %.0f W, %.0f W is its default: the clock falls sooner under load", s.PowerLimitW, s.DefaultPowerLimitW),
		fmt.Sprintf("sudo nvidia-smi -i BUS -pl %.0f", s.DefaultPowerLimitW)}}
}

// hotMargin is how near to slowing down, in degrees, a card is too hot to begin.
const hotMargin = 10

func hot(s *kernels.CardState) []Finding {
	if s.TempC == 0 || s.SlowdownTempC == 0 || s.TempC < s.SlowdownTempC-hotMargin {
		return nil
	}
	return []Finding{{"gpu temperature", Warning, fmt.Sprintf("%.0f °C, at %.0f °C it is slowed down", s.TempC, s.SlowdownTempC),
		"let it cool down, look at its fans and at its neighbours"}}
}

func memoryErrors(s *kernels.CardState) []Finding {
	const check = "gpu memory"
	var out []Finding
	switch {
	case s.Uncorrected > 0:
		out = append(out, Finding{check, Error, fmt.Sprintf("%s since the driver was loaded", errorsOfMemory(s.Uncorrected)),
			"stop using the card: reset it (sudo nvidia-smi -r -i BUS, with nothing running on it), and have it replaced when they come back"})
	case s.UncorrectedEver > 0:
		out = append(out, Finding{check, Note, fmt.Sprintf("%s in its life, none since the driver was loaded", errorsOfMemory(s.UncorrectedEver)), ""})
	}
	if s.Retiring {
		out = append(out, Finding{check, Warning, "faulty memory waits for a reset to be replaced", "sudo nvidia-smi -r -i BUS, with nothing running on the card"})
	}
	if s.ECC == "off" {
		out = append(out, Finding{check, Note, "ECC is off: memory may be faster than that of other cards, and errors stay unseen",
			"sudo nvidia-smi -e 1 -i BUS, then a reset"})
	}
	return out
}

func errorsOfMemory(n int64) string { return plural(int(n), "uncorrected memory error") }

// shared asks whether the whole card is there, and for this process.
func shared(s *kernels.CardState) []Finding {
	var out []Finding
	if s.MIG == "on" {
		out = append(out, Finding{"gpu mig", Warning, "MIG is on: a slice of the card is measured, and the other slices share its power",
			"sudo nvidia-smi -mig 0 -i BUS gives the whole card back"})
	}
	switch {
	case s.ComputeMode == "prohibited":
		out = append(out, Finding{"gpu compute mode", Error, "prohibited: no program may compute on it", "sudo nvidia-smi -c 0 -i BUS"})
	case strings.HasPrefix(s.ComputeMode, "exclusive"):
		out = append(out, Finding{"gpu compute mode", Note, s.ComputeMode + ": one program at a time", ""})
	}
	return out
}

// neighbours lists who else has memory on the card. One process that can't be seen
// from here may be this one, behind a container's wall.
func neighbours(s *kernels.CardState) []Finding {
	const check = "gpu processes"
	var seen []string
	var hidden int
	for _, p := range s.Processes {
		if !p.Visible {
			hidden++
			continue
		}
		text := fmt.Sprintf("%s (pid %d", p.Name, p.PID)
		if p.Name == "" {
			text = fmt.Sprintf("a process (pid %d", p.PID)
		}
		if p.Bytes > 0 {
			text += fmt.Sprintf(", %.1f GiB", float64(p.Bytes)/(1<<30))
		}
		seen = append(seen, text+")")
	}
	var out []Finding
	if len(seen) > 0 {
		out = append(out, Finding{check, Warning, "others have memory on it: " + strings.Join(seen, ", "), "stop them, or audit a card that is free"})
	}
	switch {
	case hidden == 1:
		out = append(out, Finding{check, Note, "one process of another PID namespace has memory on it, perhaps this one", "look from outside of the container: nvidia-smi -i BUS"})
	case hidden > 1:
		out = append(out, Finding{check, Warning, fmt.Sprintf("%d processes of other PID namespaces have memory on it, one of them perhaps this one", hidden),
			"look from outside of the container: nvidia-smi -i BUS"})
	}
	return out
}

func persistence(s *kernels.CardState) []Finding {
	if s.Persistence != "off" {
		return nil
	}
	return []Finding{{"gpu persistence", Note, "off: between programs the driver forgets the card and its settings, and each start takes seconds",
		"sudo nvidia-smi -pm 1 -i BUS"}}
}

// link compares the width of the link: its generation falls at rest by design.
func link(s *kernels.CardState) []Finding {
	if s.LinkWidth == 0 || s.LinkWidth >= s.MaxLinkWidth {
		return nil
	}
	return []Finding{{"gpu link", Note, fmt.Sprintf("PCIe ×%d, the card could have ×%d: weights are uploaded more slowly, products are not", s.LinkWidth, s.MaxLinkWidth),
		"another slot, or the card was not pushed in"}}
}
