package results

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// ReadFingerprint describes the machine that the program runs on. What the system
// doesn't tell stays empty; nothing here fails. version is that of gemmaudit.
func ReadFingerprint(devices []kernels.Spec, version string) Fingerprint {
	f := FingerprintOf(os.DirFS("/"), devices, version)
	name, release := uname()
	if f.Hostname == "" {
		f.Hostname, _ = os.Hostname()
	}
	if f.Kernel == "" {
		f.Kernel = release
	}
	if f.OS == "" {
		f.OS = name
	}
	f.Arch = runtime.GOARCH
	// The affinity that the process started with: later a thread may be pinned.
	f.Cores = runtime.NumCPU()
	return f
}

// FingerprintOf reads the description of a Linux machine from its file system:
// etc, proc and sys below the root of files. Cores is the number of CPUs that
// proc/self/status allows. Arch is left empty.
func FingerprintOf(files fs.FS, devices []kernels.Spec, version string) Fingerprint {
	r := factReader{files}
	info := r.cpuinfo()
	f := Fingerprint{
		Gemmaudit:  version,
		Hostname:   r.text("proc/sys/kernel/hostname"),
		OS:         r.osName(),
		Kernel:     r.text("proc/sys/kernel/osrelease"),
		CPUModel:   strings.Join(strings.Fields(info["model name"]), " "),
		Microcode:  info["microcode"],
		Cores:      len(r.allowedCPUs()),
		MemoryGiB:  r.memoryGiB(),
		Governor:   r.governor(),
		Turbo:      r.turbo(),
		SMT:        r.smt(),
		Hypervisor: r.hypervisor(info["flags"]),
		THP:        r.hugePages(),
		Devices:    devices,
	}
	if f.CPUModel == "" {
		f.CPUModel = r.text("sys/firmware/devicetree/base/model")
	}
	for _, d := range devices {
		if f.CPUModel == "" && d.Kind == kernels.CPU {
			f.CPUModel = d.Name
		}
	}
	return f
}

// factReader reads single facts from a file system, tolerant of what is absent.
type factReader struct{ files fs.FS }

// text is a file's content without surrounding white space and NULs, empty when
// it can't be read.
func (r factReader) text(name string) string {
	b, err := fs.ReadFile(r.files, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\r\n\x00")
}

// cpuinfo is the first processor's block.
func (r factReader) cpuinfo() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(r.text("proc/cpuinfo")) {
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if _, seen := out[key]; ok && !seen {
			out[key] = strings.TrimSpace(value)
		}
	}
	return out
}

func (r factReader) osName() string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		for line := range strings.Lines(r.text(file)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return ""
}

// allowedCPUs are the CPUs on which the process may run.
func (r factReader) allowedCPUs() []int {
	for line := range strings.Lines(r.text("proc/self/status")) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return ParseCPUList(list)
		}
	}
	return nil
}

// ParseCPUList reads the kernel's lists of CPUs: "0-3,8,10-11". What can't be read
// is left out.
func ParseCPUList(list string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		if last-first > 1<<16 { // more than any kernel has: not a list
			continue
		}
		for cpu := first; cpu <= last; cpu++ {
			out = append(out, cpu)
		}
	}
	return out
}

func (r factReader) memoryGiB() float64 {
	for line := range strings.Lines(r.text("proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return 0
			}
			return kib / (1 << 20)
		}
	}
	return 0
}

const cpuFolder = "sys/devices/system/cpu"

// governor names the frequency governors in use, joined by commas when CPUs differ.
func (r factReader) governor() string {
	seen := map[string]bool{}
	files, _ := fs.Glob(r.files, path.Join(cpuFolder, "cpu[0-9]*/cpufreq/scaling_governor"))
	for _, file := range files {
		if g := r.text(file); g != "" {
			seen[g] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ",")
}

// turbo is "on" or "off" where a driver tells.
func (r factReader) turbo() string {
	switch r.text(path.Join(cpuFolder, "intel_pstate/no_turbo")) {
	case "0":
		return "on"
	case "1":
		return "off"
	}
	switch r.text(path.Join(cpuFolder, "cpufreq/boost")) {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	return ""
}

// smt is "on" when two threads share a core, "off" when they don't.
func (r factReader) smt() string {
	switch r.text(path.Join(cpuFolder, "smt/active")) {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	return ""
}

// hypervisors maps what firmware calls a virtual machine to its hypervisor. Order
// matters: "Amazon EC2" is also on bare metal, where the product ends in ".metal".
var hypervisors = []struct{ dmi, name string }{
	{"kvm", "KVM"}, {"qemu", "KVM"}, {"vmware", "VMware"}, {"virtualbox", "VirtualBox"}, {"innotek", "VirtualBox"},
	{"xen", "Xen"}, {"virtual machine", "Hyper-V"}, {"google compute engine", "KVM (Google Compute Engine)"},
	{"amazon ec2", "Nitro (Amazon EC2)"}, {"openstack", "KVM (OpenStack)"}, {"parallels", "Parallels"}, {"bochs", "Bochs"},
	{"apple virtualization", "Apple Virtualization"}, {"alibaba", "KVM (Alibaba Cloud)"}, {"digitalocean", "KVM (DigitalOcean)"},
	{"hetzner", "KVM (Hetzner)"},
}

// hypervisor names what the machine is a guest of, empty on bare metal. Firmware
// names it where there is firmware; the CPU's flag alone says only that there is one.
func (r factReader) hypervisor(cpuFlags string) string {
	guest := slices.Contains(strings.Fields(cpuFlags), "hypervisor")
	if kind := r.text("sys/hypervisor/type"); kind != "" {
		return strings.ToUpper(kind[:1]) + kind[1:]
	}
	product := r.text("sys/class/dmi/id/product_name")
	names := strings.ToLower(r.text("sys/class/dmi/id/sys_vendor") + " " + product)
	// Vendors of clouds sell bare metal too: on x86 the flag decides.
	if !strings.HasSuffix(product, ".metal") && (guest || cpuFlags == "") {
		for _, h := range hypervisors {
			if strings.Contains(names, h.dmi) {
				return h.name
			}
		}
	}
	if guest {
		return "unknown"
	}
	return ""
}

// hugePages is the chosen one of "always [madvise] never".
func (r factReader) hugePages() string {
	_, rest, _ := strings.Cut(r.text("sys/kernel/mm/transparent_hugepage/enabled"), "[")
	chosen, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return chosen
}
