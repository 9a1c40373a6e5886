package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func atRest() kernels.CardState {
	return kernels.CardState{
		BusID: "0000:1B:00.0", ClockMHz: 345, MaxClockMHz: 1980, MemoryClockMHz: 3201, MaxMemoryClockMHz: 3201,
		ApplicationClockMHz: 1980, DefaultClockMHz: 1980, PowerW: 76, PowerLimitW: 700, DefaultPowerLimitW: 700, TempC: 31,
		SlowdownTempC: 87,
		Idle:          true, ECC: "on", MIG: "off", Persistence: "on", ComputeMode: "default", LinkGeneration: 1, MaxLinkGeneration: 5,
		LinkWidth: 16, MaxLinkWidth: 16,
	}
}

func cardFindings(c Card) []string {
	var out []string
	for _, f := range Check(Source{Files: fstest.MapFS{}, Cards: []Card{c}}).Findings {
		if strings.HasPrefix(f.Check, "gpu") {
			out = append(out, fmt.Sprintf("%s %s: %s [%s]", f.Severity, f.Check, f.Seen, f.Hint))
		}
	}
	return out
}

func TestCards(t *testing.T) {
	if got := cardFindings(Card{ID: "cuda:0", State: atRest()}); len(got) != 1 ||
		got[0] != "ok gpu: cuda:0: 345 of 1980 MHz at rest, 76 of 700 W, 31 °C, ECC on, compute mode default []" {
		t.Errorf("a card in order: %q", got)
	}
	for _, c := range []struct {
		name string
		with func(*kernels.CardState)
		want string
	}{
		{"throttled", func(s *kernels.CardState) {
			s.Throttle = []kernels.ThrottleReason{kernels.TooHotDriver, kernels.PowerCap}
		},
			"warning gpu throttling: cuda:0: the clock is held"},
		{"application clock", func(s *kernels.CardState) { s.ApplicationClockMHz = 1200 },
			"warning gpu clock: cuda:0: the application clock"},
		{"locked", func(s *kernels.CardState) { s.Idle, s.ClockMHz = false, 1200 },
			"note gpu clock: cuda:0: 1200 of 1980 MHz without throttling"},
		{"capped", func(s *kernels.CardState) { s.PowerLimitW = 400 },
			"warning gpu power: cuda:0: capped at 400 W, 700 W is its default"},
		{"hot", func(s *kernels.CardState) { s.TempC = 80 },
			"warning gpu temperature: cuda:0: 80 °C, at 87 °C it is slowed"},
		{"faulty", func(s *kernels.CardState) { s.Uncorrected, s.UncorrectedEver = 1, 3 },
			"error gpu memory: cuda:0: 1 uncorrected memory error since the driver was"},
		{"once faulty", func(s *kernels.CardState) { s.UncorrectedEver = 3 },
			"note gpu memory: cuda:0: 3 uncorrected memory errors in its life, none"},
		{"retiring", func(s *kernels.CardState) { s.Retiring = true }, "warning gpu memory: cuda:0: faulty memory waits"},
		{"no ECC", func(s *kernels.CardState) { s.ECC = "off" }, "note gpu memory: cuda:0: ECC is off"},
		{"MIG", func(s *kernels.CardState) { s.MIG = "on" }, "warning gpu mig: cuda:0: MIG is on"},
		{"prohibited", func(s *kernels.CardState) { s.ComputeMode = "prohibited" }, "error gpu compute mode: cuda:0: prohibited"},
		{"exclusive", func(s *kernels.CardState) { s.ComputeMode = "exclusive process" },
			"note gpu compute mode: cuda:0: exclusive process"},
		{"persistence", func(s *kernels.CardState) { s.Persistence = "off" }, "note gpu persistence: cuda:0: off"},
		{"narrow", func(s *kernels.CardState) { s.LinkWidth = 8 }, "note gpu link: cuda:0: PCIe ×8, the card could have ×16"},
		{"neighbours", func(s *kernels.CardState) {
			s.Processes = []kernels.CardProcess{{PID: 7, Name: "trainer", Bytes: 3 << 29, Visible: true}, {PID: 8, Visible: true}}
		}, "warning gpu processes: cuda:0: others have memory on"},
		{"hidden", func(s *kernels.CardState) { s.Processes = []kernels.CardProcess{{PID: 7}} },
			"note gpu processes: cuda:0: one process of another"},
		{"several hidden", func(s *kernels.CardState) { s.Processes = []kernels.CardProcess{{PID: 7}, {PID: 8}} },
			"warning gpu processes: cuda:0: 2 processes of other PID"},
	} {
		s := atRest()
		c.with(&s)
		got := cardFindings(Card{ID: "cuda:0", State: s})
		if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, c.want) }) {
			t.Errorf("%s: %q lacks %q", c.name, got, c.want)
		}
		if len(got) != 2 {
			t.Errorf("%s: %d findings, expected its own and the card's line: %q", c.name, len(got), got)
		}
	}
}

func TestCardsThatDoNotTell(t *testing.T) {
	got := cardFindings(Card{ID: "cuda:1", Err: errors.New("libnvidia-ml.so.1 is not on this machine")})
	if len(got) != 1 || !strings.HasPrefix(got[0], "note gpu: cuda:1: its clock, power") {
		t.Errorf("no NVML: %q", got)
	}
	s := kernels.CardState{TempC: 40,
		Unknown: []kernels.Missing{{Name: "clock", Reason: "no"}, {Name: "power", Reason: "old"}, {Name: "ECC mode", Reason: "no"}}}
	got = cardFindings(Card{ID: "cuda:1", State: s})
	if len(got) != 1 || got[0] != "ok gpu: cuda:1: 40 °C, unknown: clock, ECC mode (no), unknown: power (old) []" {
		t.Errorf("a card that tells little: %q", got)
	}
}

type telling struct {
	kernels.Device
	err error
}

func (d telling) Spec() kernels.Spec {
	return kernels.Spec{ID: "cuda:3", Kind: kernels.CUDA, Name: "H200"}
}
func (d telling) CardState() (kernels.CardState, error) {
	return atRest(), d.err
}
func (d telling) Missing() []kernels.Missing { return nil }

type provider struct{ devices []kernels.Device }

func (p provider) Open() ([]kernels.Device, []kernels.Missing) { return p.devices, nil }

func TestLiveAsksDevices(t *testing.T) {
	s := Live(kernels.NewRegistry(provider{[]kernels.Device{telling{}}}))
	if len(s.Cards) != 1 || s.Cards[0].ID != "cuda:3" || s.Cards[0].State.TempC != 31 {
		t.Errorf("cards: %+v", s.Cards)
	}
}
