package results

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func fakeFS(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestFingerprintOf(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	device := kernels.Spec{ID: "cpu", Kind: kernels.CPU, Name: "Neoverse N1"}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Fingerprint
	}{
		{"bare Xeon", map[string]string{
			"proc/sys/kernel/hostname":  "node7\n",
			"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
			"etc/os-release":            "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
			"proc/cpuinfo": "processor\t: 0\nmodel name\t: INTEL(R)  XEON(R) 8592+\nmicrocode\t: 0x21\n" +
				"flags\t\t: fpu avx\n\nprocessor\t: 1\nmicrocode\t: 0x22\n",
			"proc/self/status":                           "Name:\tx\nCpus_allowed_list:\t0-2,5\n",
			"proc/meminfo":                               "MemTotal:       67108864 kB\n",
			cpu + "cpu0/cpufreq/scaling_governor":        "performance\n",
			cpu + "cpu1/cpufreq/scaling_governor":        "powersave\n",
			cpu + "intel_pstate/no_turbo":                "0\n",
			cpu + "smt/active":                           "1\n",
			"sys/class/dmi/id/sys_vendor":                "Supermicro\n",
			"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
		}, Fingerprint{
			Gemmaudit: "v1", Hostname: "node7", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64",
			CPUModel: "INTEL(R) XEON(R) 8592+", Microcode: "0x21", Cores: 4, MemoryGiB: 64,
			Governor: "performance,powersave", Turbo: "on", SMT: "on", THP: "madvise",
		}},
		{"AMD guest", map[string]string{
			"proc/cpuinfo":                  "model name: AMD EPYC\nflags: fpu hypervisor\n",
			cpu + "cpufreq/boost":           "0",
			cpu + "smt/active":              "0",
			"sys/class/dmi/id/sys_vendor":   "QEMU",
			"sys/class/dmi/id/product_name": "Standard PC (Q35)",
		}, Fingerprint{Gemmaudit: "v1", CPUModel: "AMD EPYC", Turbo: "off", SMT: "off", Hypervisor: "KVM"}},
		{"guest without firmware", map[string]string{"proc/cpuinfo": "model name: x\nflags: hypervisor\n"},
			Fingerprint{Gemmaudit: "v1", CPUModel: "x", Hypervisor: "unknown"}},
		{"bare metal of a cloud", map[string]string{
			"proc/cpuinfo":                  "model name: x\nflags: fpu\n",
			"sys/class/dmi/id/sys_vendor":   "Amazon EC2",
			"sys/class/dmi/id/product_name": "c7i.metal-24xl",
		}, Fingerprint{Gemmaudit: "v1", CPUModel: "x"}},
		{"arm guest of a cloud", map[string]string{
			"sys/class/dmi/id/sys_vendor":   "Amazon EC2",
			"sys/class/dmi/id/product_name": "c7g.large",
		}, Fingerprint{Gemmaudit: "v1", CPUModel: "Neoverse N1", Hypervisor: "Nitro (Amazon EC2)"}},
		{"xen", map[string]string{"sys/hypervisor/type": "xen\n"},
			Fingerprint{Gemmaudit: "v1", CPUModel: "Neoverse N1", Hypervisor: "Xen"}},
		{"nothing", nil, Fingerprint{Gemmaudit: "v1", CPUModel: "Neoverse N1"}},
		{"rubbish", map[string]string{
			"proc/meminfo": "MemTotal:\nMemTotal: many kB\n", "proc/cpuinfo": ":::\n\x00",
			"proc/self/status":                           "Cpus_allowed_list:\t-,x-3,7-y\n",
			"sys/kernel/mm/transparent_hugepage/enabled": "[", cpu + "smt/active": "forceoff",
		}, Fingerprint{Gemmaudit: "v1", CPUModel: "Neoverse N1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := FingerprintOf(fakeFS(c.files), []kernels.Spec{device}, "v1")
			c.want.Devices = []kernels.Spec{device}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReadFingerprintHere(t *testing.T) {
	f := ReadFingerprint(nil, "v2")
	if f.Gemmaudit != "v2" || f.Cores < 1 || f.Arch == "" || f.Kernel == "" || f.Hostname == "" {
		t.Errorf("this machine reads as %+v", f)
	}
}

func sampleFingerprint() Fingerprint {
	return Fingerprint{
		Gemmaudit: "v1", Hostname: "a", OS: "Debian", Kernel: "6.1", Arch: "amd64", CPUModel: "Xeon", Microcode: "0x1",
		Cores: 2, MemoryGiB: 23.6,
		Devices: []kernels.Spec{
			{ID: "cpu", Kind: kernels.CPU, Name: "Xeon", Units: 2, MemoryBytes: 1 << 34,
				Caches:   []kernels.Cache{{Level: 1, Bytes: 48 << 10, Count: 2}, {Level: 3, Bytes: 32 << 20, Count: 1}},
				Features: []string{"avx2", "amx_tile"}, Versions: map[string]string{"microcode": "0x1", "openblas": "0.3.21"}},
			{ID: "cuda:0", Kind: kernels.CUDA, Name: "H200", Units: 132, MemoryBytes: 141 << 30, LastLevelCacheBytes: 50 << 20},
		},
	}
}

func TestFactors(t *testing.T) {
	var got []string
	for _, f := range sampleFingerprint().Factors() {
		if f.Value != "" {
			got = append(got, f.Name+": "+f.Value)
		}
		if f.Identity != (f.Name == "hostname" || strings.HasSuffix(f.Name, " uuid")) {
			t.Errorf("%s: identity is %v", f.Name, f.Identity)
		}
	}
	want := []string{
		"hostname: a", "gemmaudit: v1", "os: Debian", "kernel: 6.1", "arch: amd64", "cpu model: Xeon", "microcode: 0x1", "cores: 2",
		"memory: 24 GiB", "cpu caches: L1 48 KiB × 2, L3 32 MiB", "cpu features: avx2 amx_tile", "cpu openblas: 0.3.21",
		"cuda:0 name: H200", "cuda:0 units: 132", "cuda:0 memory: 141 GiB", "cuda:0 caches: last level 50 MiB",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// An imported run knows only its device.
	imported := Fingerprint{Devices: []kernels.Spec{{ID: "cpu", Kind: kernels.CPU, Name: "Xeon",
		Versions: map[string]string{"microcode": "0x1"}}}}
	var names []string
	for _, f := range imported.Factors() {
		if f.Value != "" {
			names = append(names, f.Name)
		}
	}
	if d := cmp.Diff([]string{"cpu name", "cpu microcode"}, names); d != "" {
		t.Error(d)
	}
}

func TestDiff(t *testing.T) {
	a, b := sampleFingerprint(), sampleFingerprint()
	if d := a.Diff(b); len(d) != 0 {
		t.Errorf("equal fingerprints differ in %v", d)
	}
	b.Hostname, b.Microcode, b.MemoryGiB = "b", "0x2", 24.2
	b.Devices[0].Versions["microcode"] = "0x2"
	delete(b.Devices[0].Versions, "openblas")
	b.Devices[0].Versions["onednn"] = "2.6.3"
	want := []FactorDiff{
		{Name: "hostname", A: "a", B: "b", Identity: true},
		{Name: "microcode", A: "0x1", B: "0x2"},
		{Name: "cpu openblas", A: "0.3.21", Device: "cpu", Line: "openblas"},
		{Name: "cpu onednn", B: "2.6.3", Device: "cpu", Line: "onednn"},
	}
	if d := cmp.Diff(want, a.Diff(b)); d != "" {
		t.Error(d)
	}
}

// The original must keep its identity.
func TestAnonymousFingerprint(t *testing.T) {
	f := Fingerprint{Hostname: "node7", Kernel: "6.1-node", CPUModel: "Xeon",
		Devices: []kernels.Spec{{ID: "cuda:0", Name: "Card X", UUID: "GPU-1"}}}
	before := f.Factors()
	for _, x := range f.Anonymous().Factors() {
		if x.Value != "" && (x.Identity || x.Name == "kernel") {
			t.Errorf("%s is %s", x.Name, x.Value)
		}
	}
	if f.Anonymous().Devices[0].Name != "Card X" || !reflect.DeepEqual(f.Factors(), before) {
		t.Errorf("of %+v it is %+v", f, f.Anonymous())
	}
}
