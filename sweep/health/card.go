package health

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Card is a device's report of its state.
type Card struct {
	ID    string // "cuda:0"
	State kernels.CardState
	Err   error // why there is no state
}

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

// A card without problems takes one line; a host may have sixteen.
func checkCards(m *machine) []Finding {
	var out []Finding
	for _, c := range m.Cards {
		if c.Err != nil {
			out = append(out, Finding{"gpu", Note, c.ID + ": its clock, power and neighbors can't be read: " + c.Err.Error(),
				"each block measures the clock for itself; throttling and other load stay unseen"})
			continue
		}
		found := wrongWith(&c.State)
		for i := range found {
			found[i].Seen = c.ID + ": " + found[i].Seen
			found[i].Hint = strings.ReplaceAll(found[i].Hint, "BUS", c.State.BusID)
		}
		severity := OK
		if len(found) > 0 {
			severity = Note
		}
		out = append(append(out, found...), Finding{"gpu", severity, c.ID + ": " + cardInWords(&c.State), ""})
	}
	return out
}

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

const (
	// heldShare is the share of the highest clock below which a busy card without a throttle reason counts as
	// locked.
	heldShare = 0.9
	// hotMargin is the minimum distance from the slowdown temperature, in degrees.
	hotMargin = 10
)

// wrongWith lists what may disturb measurements on a card. BUS in a hint is its address.
func wrongWith(s *kernels.CardState) (out []Finding) {
	add := func(is bool, check string, severity Severity, seen, hint string) {
		if is {
			out = append(out, Finding{check, severity, seen, hint})
		}
	}
	add(len(s.Throttle) > 0, "gpu throttling", Warning, "the clock is held down just now: "+string(kernels.Throttled(s.Throttle...)),
		"wait until the card is cool and idle, and see `nvidia-smi -q -d PERFORMANCE -i BUS`")
	set := s.ApplicationClockMHz > 0 && s.ApplicationClockMHz < s.DefaultClockMHz
	add(set, "gpu clock", Warning,
		fmt.Sprintf("the application clock is set to %.0f MHz, %.0f MHz is its default", s.ApplicationClockMHz, s.DefaultClockMHz),
		"sudo nvidia-smi -rac -i BUS")
	add(!set && !s.Idle && len(s.Throttle) == 0 && s.ClockMHz > 0 && s.ClockMHz < heldShare*s.MaxClockMHz, "gpu clock", Note,
		fmt.Sprintf("%.0f of %.0f MHz without throttling: the clock may be locked", s.ClockMHz, s.MaxClockMHz),
		"sudo nvidia-smi -rgc -i BUS undoes a lock; with one, compare cycles")
	add(s.PowerLimitW > 0 && s.PowerLimitW < s.DefaultPowerLimitW, "gpu power", Warning,
		fmt.Sprintf("capped at %.0f W, %.0f W is its default: the clock falls sooner under load", s.PowerLimitW, s.DefaultPowerLimitW),
		fmt.Sprintf("sudo nvidia-smi -i BUS -pl %.0f", s.DefaultPowerLimitW))
	add(s.TempC != 0 && s.SlowdownTempC != 0 && s.TempC >= s.SlowdownTempC-hotMargin, "gpu temperature", Warning,
		fmt.Sprintf("%.0f °C, at %.0f °C it is slowed down", s.TempC, s.SlowdownTempC),
		"let it cool down, look at its fans and at its neighbors")
	add(s.Uncorrected > 0, "gpu memory", Error, errorsOfMemory(s.Uncorrected)+" since the driver was loaded",
		"stop using the card: reset it when idle (sudo nvidia-smi -r -i BUS), and replace it if errors return")
	add(s.Uncorrected <= 0 && s.UncorrectedEver > 0, "gpu memory", Note,
		errorsOfMemory(s.UncorrectedEver)+" in its life, none since the driver was loaded", "")
	add(s.Retiring, "gpu memory", Warning, "faulty memory waits for a reset to be replaced",
		"sudo nvidia-smi -r -i BUS, when the card is idle")
	add(s.ECC == "off", "gpu memory", Note, "ECC is off: memory may be faster than on other cards, and errors are not detected",
		"sudo nvidia-smi -e 1 -i BUS, then a reset")
	add(s.MIG == "on", "gpu mig", Warning, "MIG is on: a slice of the card is measured, and the other slices share its power",
		"sudo nvidia-smi -mig 0 -i BUS gives the whole card back")
	add(s.ComputeMode == "prohibited", "gpu compute mode", Error, "prohibited: no program may compute on it", "sudo nvidia-smi -c 0 -i BUS")
	add(strings.HasPrefix(s.ComputeMode, "exclusive"), "gpu compute mode", Note, s.ComputeMode+": one program at a time", "")
	seen, hidden := neighbours(s)
	add(len(seen) > 0, "gpu processes", Warning, "others have memory on it: "+strings.Join(seen, ", "),
		"stop them, or audit a card that is free")
	add(hidden == 1, "gpu processes", Note, "one process of another PID namespace has memory on it; it may be this one",
		"look from outside of the container: nvidia-smi -i BUS")
	add(hidden > 1, "gpu processes", Warning,
		fmt.Sprintf("%d processes of other PID namespaces have memory on it; one may be this one", hidden),
		"look from outside of the container: nvidia-smi -i BUS")
	add(s.Persistence == "off", "gpu persistence", Note,
		"off: between programs the driver forgets the card and its settings, and each start takes seconds", "sudo nvidia-smi -pm 1 -i BUS")
	// The link's generation falls when idle by design; its width does not.
	add(s.LinkWidth != 0 && s.LinkWidth < s.MaxLinkWidth, "gpu link", Note,
		fmt.Sprintf("PCIe ×%d, the card could have ×%d: weights are uploaded more slowly, products are not", s.LinkWidth, s.MaxLinkWidth),
		"another slot, or the card was not pushed in")
	return out
}

func errorsOfMemory(n int64) string { return plural(int(n), "uncorrected memory error") }

// neighbours returns the processes with memory on a card, and the number of those in other PID namespaces: one may be this
// process, seen from outside of a container.
func neighbours(s *kernels.CardState) (seen []string, hidden int) {
	for _, p := range s.Processes {
		if !p.Visible {
			hidden++
			continue
		}
		text := fmt.Sprintf("%s (pid %d", cmp.Or(p.Name, "a process"), p.PID)
		if p.Bytes > 0 {
			text += fmt.Sprintf(", %.1f GiB", float64(p.Bytes)/(1<<30))
		}
		seen = append(seen, text+")")
	}
	return seen, hidden
}
