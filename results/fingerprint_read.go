package results

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

// ReadFingerprint describes this machine. Unknown values stay empty; it never fails. version is gemmaudit's.
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
	// The affinity at process start: later a thread may be pinned.
	f.Cores = runtime.NumCPU()
	return f
}

// FingerprintOf describes a Linux machine from its file system: etc, proc and sys below the root of files.
// Cores is the number of CPUs that proc/self/status allows. Arch stays empty.
func FingerprintOf(files fs.FS, devices []kernels.Spec, version string) Fingerprint {
	r := factReader{procfs.Tree{FS: files}}
	info := r.CPUInfo()
	memory, _ := r.Memory("MemTotal")
	f := Fingerprint{
		Gemmaudit:  version,
		Hostname:   r.Text("proc/sys/kernel/hostname"),
		OS:         r.osName(),
		Kernel:     r.Text("proc/sys/kernel/osrelease"),
		CPUModel:   strings.Join(strings.Fields(info["model name"]), " "),
		Microcode:  info["microcode"],
		Cores:      len(procfs.ParseCPUList(r.Field("proc/self/status", "Cpus_allowed_list:"))),
		MemoryGiB:  float64(memory) / (1 << 30),
		Governor:   r.governor(),
		Turbo:      r.turbo(),
		SMT:        r.smt(),
		Hypervisor: r.hypervisor(info["flags"]),
		THP:        r.hugePages(),
		Devices:    devices,
	}
	if f.CPUModel == "" {
		f.CPUModel = r.Text("sys/firmware/devicetree/base/model")
	}
	for _, d := range devices {
		if f.CPUModel == "" && d.Kind.Facts().Host {
			f.CPUModel = d.Name
		}
	}
	return f
}

// factReader reads single facts from a file system; missing files are allowed.
type factReader struct{ procfs.Tree }

func (r factReader) osName() string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		for line := range strings.Lines(r.Text(file)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return ""
}

const cpuFolder = "sys/devices/system/cpu"

func (r factReader) governor() string {
	seen := map[string]bool{}
	files, _ := fs.Glob(r.FS, path.Join(cpuFolder, "cpu[0-9]*/cpufreq/scaling_governor"))
	for _, file := range files {
		if g := r.Text(file); g != "" {
			seen[g] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ",")
}

// turbo returns "on" or "off", empty if unknown.
func (r factReader) turbo() string {
	return cmp.Or(r.onOff("intel_pstate/no_turbo", "0", "1"), r.onOff("cpufreq/boost", "1", "0"))
}

// smt returns "on" if two threads share a core, otherwise "off".
func (r factReader) smt() string { return r.onOff("smt/active", "1", "0") }

// onOff reads a CPU switch; empty if it is neither on nor off.
func (r factReader) onOff(file, on, off string) string {
	switch r.Text(path.Join(cpuFolder, file)) {
	case on:
		return "on"
	case off:
		return "off"
	}
	return ""
}

// hypervisors maps firmware names of virtual machines to hypervisors. "Amazon EC2" is also on bare metal,
// where the product ends in ".metal".
var hypervisors = []struct{ dmi, name string }{
	{"kvm", "KVM"}, {"qemu", "KVM"}, {"vmware", "VMware"}, {"virtualbox", "VirtualBox"}, {"innotek", "VirtualBox"},
	{"xen", "Xen"}, {"virtual machine", "Hyper-V"}, {"google compute engine", "KVM (Google Compute Engine)"},
	{"amazon ec2", "Nitro (Amazon EC2)"}, {"openstack", "KVM (OpenStack)"}, {"parallels", "Parallels"}, {"bochs", "Bochs"},
	{"apple virtualization", "Apple Virtualization"}, {"alibaba", "KVM (Alibaba Cloud)"}, {"digitalocean", "KVM (DigitalOcean)"},
	{"hetzner", "KVM (Hetzner)"},
}

// hypervisor returns the machine's hypervisor, empty on bare metal. Firmware names it if there is any; the
// CPU flag only shows that there is one.
func (r factReader) hypervisor(cpuFlags string) string {
	guest := slices.Contains(strings.Fields(cpuFlags), "hypervisor")
	if kind := r.Text("sys/hypervisor/type"); kind != "" {
		return strings.ToUpper(kind[:1]) + kind[1:]
	}
	product := r.Text("sys/class/dmi/id/product_name")
	names := strings.ToLower(r.Text("sys/class/dmi/id/sys_vendor") + " " + product)
	// Cloud vendors offer bare metal too: on x86 the CPU flag decides.
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

// hugePages returns the selected value of "always [madvise] never".
func (r factReader) hugePages() string {
	_, rest, _ := strings.Cut(r.Text("sys/kernel/mm/transparent_hugepage/enabled"), "[")
	chosen, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return chosen
}
