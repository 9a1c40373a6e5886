// Package health looks for problems that would distort measurements on this machine: the frequency governor,
// other load, a CPU quota, a hypervisor, too little memory, missing libraries, or a GPU that is throttled,
// shared or faulty. It changes nothing and prints nothing; every finding has an observation and, if possible,
// a hint.
//
// The facts come from procfs and sysfs. On other systems few checks are possible, and a finding reports that.
// GPUs report their own state: see [kernels.CardTeller].
package health

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
	"github.com/gemmaudit/gemmaudit/results"
)

// Severity is a finding's importance for a measurement.
type Severity string

// The severities, ascending.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // relevant when reading the numbers
	Warning Severity = "warning" // makes numbers noisier or slower than the machine's
	Error   Severity = "error"   // makes numbers wrong or impossible
)

func (s Severity) rank() int { return slices.Index([]Severity{OK, Note, Warning, Error}, s) }

// Finding is the result of one check.
type Finding struct {
	Check    string   `json:"check"` // "governor"
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`           // in words, with the values
	Hint     string   `json:"hint,omitempty"` // what to do about it; empty if nothing helps
}

// Report holds the findings, most severe first, in the order of the checks within a severity.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Count is the number of findings of that severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Add inserts a finding after the others of its severity.
func (r *Report) Add(f Finding) {
	r.Findings = append(r.Findings, f)
	r.sort()
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return b.Severity.rank() - a.Severity.rank() })
}

// Source is the machine to check.
type Source struct {
	// Files is the root of the file system, with proc and sys in it.
	Files fs.FS
	// Wait waits between two readings of the counters.
	Wait func(time.Duration)
	// Devices lists the devices that can be audited. Missing lists the devices, kernels and libraries that
	// can't, with reasons.
	Devices []kernels.Spec
	Missing []kernels.Missing
	// Cards are the devices that reported their card's state.
	Cards []Card
}

// 30 of the kernel's ticks, so one tick on two CPUs is 1.7 %.
const window = 300 * time.Millisecond

// Live is this machine with its devices.
func Live(registry *kernels.Registry) Source {
	s := Source{Files: os.DirFS("/"), Wait: time.Sleep, Missing: slices.Clone(registry.Missing())}
	for _, d := range registry.Devices() {
		s.Devices = append(s.Devices, d.Spec())
		s.Missing = append(s.Missing, d.Missing()...)
	}
	s.Cards = cardsOf(registry.Devices())
	return s
}

// Check runs all checks. It takes about 300 ms, during which the process should be idle, since all load
// counts as other processes'.
func Check(s Source) Report {
	m := &machine{Source: s, facts: results.FingerprintOf(s.Files, nil, "")}
	m.allowed = procfs.ParseCPUList(m.field("proc/self/status", "Cpus_allowed_list:"))
	m.online = procfs.ParseCPUList(m.text("sys/devices/system/cpu/online"))
	m.before = m.readCounters()
	if m.before.cpus > 0 && s.Wait != nil {
		s.Wait(window)
	}
	m.after = m.readCounters()

	var out []Finding
	if !m.exists("proc") {
		out = append(out, Finding{"system", Note, "this system has no /proc: load, clocks and limits can't be looked at", ""})
	}
	for _, check := range []func(*machine) []Finding{
		checkDevices, checkMissing, checkCards,
		checkGovernor, checkTurbo, checkFrequency, checkThrottling,
		checkLoad, checkSteal, checkQuota, checkAffinity, checkSMT,
		checkHugePages, checkMemory, checkSwap,
		checkHypervisor, checkClock, checkRights,
	} {
		out = append(out, check(m)...)
	}
	r := Report{Findings: out}
	r.sort()
	return r
}

type machine struct {
	Source
	facts           results.Fingerprint
	allowed, online []int
	before, after   counters
}

func (m *machine) text(name string) string { return procfs.Tree{FS: m.Files}.Text(name) }

func (m *machine) exists(name string) bool {
	_, err := fs.Stat(m.Files, name)
	return err == nil
}

func (m *machine) field(file, key string) string { return procfs.Tree{FS: m.Files}.Field(file, key) }

func (m *machine) number(name string) (float64, bool) {
	v, err := strconv.ParseFloat(m.text(name), 64)
	return v, err == nil
}

func (m *machine) perCPU(file string) map[int]float64 {
	out := map[int]float64{}
	names, _ := fs.Glob(m.Files, path.Join("sys/devices/system/cpu/cpu[0-9]*", file))
	for _, name := range names {
		cpu, err := strconv.Atoi(strings.TrimPrefix(strings.Split(name, "/")[4], "cpu"))
		if v, ok := m.number(name); ok && err == nil {
			out[cpu] = v
		}
	}
	return out
}

// cpus is the number of CPUs that the process may use, 0 if unknown.
func (m *machine) cpus() int {
	if len(m.allowed) > 0 {
		return len(m.allowed)
	}
	return len(m.online)
}
