#!/usr/bin/env python3
"""Compile kernels/cuda/**/*.cu into the images that the program embeds.

Every source goes through NVRTC (CUDA C++ to PTX) and ptxas (PTX to machine code) once
for each architecture that its first lines ask for:

    // arch: 75 80 86 89 90a ptx90 100 120

`90a` is an image for compute capability 9.0 only. `ptx90` is PTX that a driver compiles for newer GPUs. `100` and `120`
are machine code of that PTX, from the ptxas of a later CUDA. Sources and headers are found by name, so names must be unique
below kernels/cuda. A source is rebuilt only if it, an included .cuh, the options or the compilers changed. It is built to

    kernels/cuda/artefacts/<source>/{manifest.json, sm_80.cubin.gz, ..., ptx90.ptx.gz}

with registers, shared memory, stack and spills of each kernel in the manifest. The same input gives the same bytes: NVRTC's
order of registers depends on addresses, so it runs in a fresh process whose memory and names of files are the same in every
folder. A kernel that spills or has a stack frame fails
the build, and so does a remark of ptxas that it skipped an optimization.

`make kernels` runs this in an environment with the pinned compilers; by hand:

    PYTHONPATH=<folder of the unpacked wheels> scripts/build_kernels.py --only hopper \\
        --raw --out /tmp/try -D STAGES=5

Needs no GPU.
"""
import argparse
import concurrent.futures
import ctypes
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ROOT / "kernels" / "cuda"
ARTEFACTS = ROOMS / "artefacts"
PACKAGES = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12")
# Options of every source, in addition to target and include paths.
NVRTC_OPTIONS = ["--std=c++17"]
PTXAS_OPTIONS = ["-O3"]
# A ptxas for GPUs from LATER on, which NVRTC does not support. It compiles the PTX for compute capability 9.0.
LATER = 100
LATER_PACKAGE = "nvidia-cuda-nvcc-cu12"
FORMAT = 1  # of manifests; another value rebuilds everything
HEADER_LINES = 40  # the list of architectures must be within them

# Remarks of ptxas about correct but slow code: serialized wgmma, ignored setmaxnreg.
GAVE_UP = re.compile(r"C75\d\d|Potential Performance Loss|setmaxnreg' ignored|serializ", re.IGNORECASE)


class BuildError(Exception):
    """A source can't be built; the message is the compiler's."""


def at_fixed_addresses():
    """Restarts this program without address space layout randomization, or continues with it where that is forbidden."""
    no_randomisation = 0x0040000  # ADDR_NO_RANDOMIZE of <linux/personality.h>
    try:
        personality = ctypes.CDLL(None).personality
    except AttributeError:  # not Linux
        return
    before = personality(ctypes.c_ulong(0xFFFFFFFF))  # asks
    if before >= 0 and before & no_randomisation:
        return
    if before >= 0 and personality(ctypes.c_ulong(before | no_randomisation)) >= 0:
        os.execv(sys.executable, [sys.executable, *sys.argv])
    print("build_kernels: addresses stay random here, so that the order of registers in PTX may not be the usual one", file=sys.stderr)


def toolchain():
    """Finds the compilers' wheels and returns their paths and versions."""
    for entry in sys.path:
        nvidia = pathlib.Path(entry or ".") / "nvidia"
        nvrtc = nvidia / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        ptxas = nvidia / "cuda_nvcc" / "bin" / "ptxas"
        if nvrtc.exists() and ptxas.exists():
            break
    else:
        raise BuildError("no NVRTC and ptxas on the Python path: run `make kernels`, which installs "
                         + ", ".join(PACKAGES))
    later = nvidia.parent.parent / "later"
    if len(found := sorted(later.glob(f"{LATER_PACKAGE.replace('-', '_')}-*.dist-info"))) != 1:
        raise BuildError(f"no later ptxas in {later}: run `make kernels`, which installs it")
    include = [nvidia / "cuda_runtime" / "include", nvidia / "cuda_nvcc" / "include"]
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"nvrtc": str(nvrtc), "ptxas": str(ptxas), "include": [str(i) for i in include], "versions": versions,
            "later": str(later / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"), "later version": found[0].name.split("-")[1].removesuffix(".dist")}


def is_later(arch):
    """Whether an architecture needs the later ptxas."""
    return arch.isdigit() and int(arch) >= LATER


def compilers(tools, archs):
    """The compiler versions for some architectures."""
    later = {f"{LATER_PACKAGE}, from {LATER} on": tools["later version"]} if any(map(is_later, archs)) else {}
    return {**tools["versions"], **later}


def architectures(source):
    """The architectures in a source's first lines: ["75", "90a", "ptx90"]."""
    for line in source.read_text().splitlines()[:HEADER_LINES]:
        m = re.match(r"//\s*arch:\s*(.+)", line)
        if m:
            archs = m.group(1).split()
            for a in archs:
                if not re.fullmatch(r"(ptx)?\d+a?", a):
                    raise BuildError(f"{source.name}: unknown architecture {a!r}: expected 80, 90a or ptx90")
            return archs
    raise BuildError(f"{source.name}: no line '// arch: 75 80 86 89 90a ptx90' among the first {HEADER_LINES}")


def find_files():
    """The files of device code by name."""
    found = {}
    for path in sorted(ROOMS.rglob("*.cu*")):
        if path.suffix not in (".cu", ".cuh"):
            continue
        if path.name in found:
            raise BuildError(f"{found[path.name]} and {path} have the same name")
        found[path.name] = path
    return found


def includes(source, files):
    """The project's headers that a source includes, directly or not, sorted by name."""
    found, queue = set(), [source]
    while queue:
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', queue.pop().read_text(), re.MULTILINE):
            if name not in found:
                if name not in files:
                    raise BuildError(f"{source.name}: includes {name}, which is nowhere in {ROOMS}")
                found.add(name)
                queue.append(files[name])
    return sorted(found)


def digest(source, headers, files):
    """sha256 of the output of `sha256sum <source> <headers>`."""
    listing = "".join(f"{hashlib.sha256(files[n].read_bytes()).hexdigest()}  {n}\n" for n in [source.name, *headers])
    return hashlib.sha256(listing.encode()).hexdigest()


def targets(arch):
    """PTX target, ptxas target, image name, file name."""
    if arch.startswith("ptx"):
        return f"compute_{arch[3:]}", f"sm_{arch[3:]}", arch, f"{arch}.ptx"
    if is_later(arch):
        return "compute_90", f"sm_{arch}", f"sm_{arch}", f"sm_{arch}.cubin"
    return f"compute_{arch}", f"sm_{arch}", f"sm_{arch}", f"sm_{arch}.cubin"


# What the process of a compilation runs. Its arguments are the names of the source, the library, the outputs and the options.
COMPILE = """
import ctypes, os, sys
name, library, ptx, log, *options = [a.encode() for a in sys.argv[1:]]
lib = ctypes.CDLL(library.decode())
lib.nvrtcGetErrorString.restype = ctypes.c_char_p

def check(result, what):
    if result != 0:
        sys.exit(f"{what}: {lib.nvrtcGetErrorString(result).decode()}")

program = ctypes.c_void_p()
with open(name, "rb") as f:
    check(lib.nvrtcCreateProgram(ctypes.byref(program), f.read(), name, 0, None, None), "nvrtcCreateProgram")
result = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
for what, to in (("ProgramLog", log), ("PTX", ptx))[:1 if result else 2]:
    size = ctypes.c_size_t()
    check(getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    check(getattr(lib, f"nvrtcGet{what}")(program, buffer), what)
    with open(to, "wb") as f:
        f.write(buffer.raw.rstrip(b"\\0"))
check(result, "nvrtcCompileProgram")
if b"_INTERNAL_" in buffer.raw and b"_%d" % os.getpid() in buffer.raw:
    sys.exit("NVRTC puts its process's number into names of internal linkage: put them into a named namespace")
"""


def compile_source(nvrtc, source, options, folders):
    """Returns PTX and the compiler's log with warnings."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, of in [(source.name, source), ("nvrtc", pathlib.Path(nvrtc).parent), *((f"i{i}", of) for i, of in enumerate(folders))]:
            (folder / name).symlink_to(of)
        python = os.path.realpath(sys.executable)
        done = subprocess.run([python, "-I", "-S", "-c", COMPILE, source.name, f"nvrtc/{pathlib.Path(nvrtc).name}", "ptx", "log",
                               *options, *(f"-Ii{i}" for i in range(len(folders)))], cwd=folder, env={}, stderr=subprocess.PIPE, text=True)
        log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
        if done.returncode != 0:
            raise BuildError(f"{source.name} [{options[0]}]: {done.stderr}\n{log}")
        ptx = (folder / "ptx").read_bytes()
    return ptx, log


def assemble(ptxas, ptx, target, name):
    """Returns the machine code of PTX and the output of ptxas."""
    with tempfile.TemporaryDirectory() as folder:
        # The image contains the name, so it must not be random.
        code, image = pathlib.Path(folder) / f"{name}.ptx", pathlib.Path(folder) / f"{name}.cubin"
        code.write_bytes(ptx)
        done = subprocess.run([ptxas, *PTXAS_OPTIONS, "-v", f"--gpu-name={target}", code.name, "-o", image.name],
                              cwd=folder, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise BuildError(f"{name} [ptxas {target}]:\n{said}")
        return image.read_bytes(), said


def kernels(ptx, said):
    """By symbol: the figures of ptxas -v, and from the PTX the largest block and the bytes of the parameter."""
    found, current = {}, None
    for line in said.splitlines():
        if m := re.search(r"Compiling entry function '([^']+)'", line):
            current = found[m.group(1)] = {"symbol": m.group(1), "parameter": 0, "registers": 0, "threads": 0, "shared": 0, "stack": 0,
                                           "spill_stores": 0, "spill_loads": 0, "constant": 0, "barriers": 0}
        if current is None:
            continue
        if m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            current["stack"], current["spill_stores"], current["spill_loads"] = map(int, m.groups())
        for field, pattern in (("registers", r"Used (\d+) registers"), ("barriers", r"used (\d+) barriers"),
                               ("shared", r"(\d+) bytes smem"), ("constant", r"(\d+) bytes cmem\[0\]")):
            if m := re.search(pattern, line):
                current[field] = int(m.group(1))
    entries = re.split(r"\.entry\s+", ptx.decode())[1:]
    for entry in entries:
        head = entry.split("{", 1)[0]
        name = re.match(r"[\w$]+", head).group(0)
        if m := re.search(r"\.param\s+\.align\s+\d+\s+\.b8\s+[\w$]+\[(\d+)\]", head):
            found[name]["parameter"] = int(m.group(1))
        if m := re.search(r"\.(?:max|req)ntid\s+([\d, ]+)", head):
            threads = 1
            for n in m.group(1).split(","):
                threads *= int(n)
            found[name]["threads"] = threads
    return [found[s] for s in sorted(found)]


def compress(data):
    """gzip without time and name: the bytes depend only on the content."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as f:
        f.write(data)
    return out.getvalue()


def build_image(tools, source, arch, defines, folders):
    """Compiles one source for one architecture."""
    virtual, real, name, file = targets(arch)
    options = [f"--gpu-architecture={virtual}", *NVRTC_OPTIONS, *[f"-D{d}" for d in defines]]
    ptx, log = compile_source(tools["nvrtc"], source, options, [*folders, *tools["include"]])
    cubin, said = assemble(tools["later" if is_later(arch) else "ptxas"], ptx, real, source.stem)
    found = kernels(ptx, said)
    problems = [f"{k['symbol']}: {k['stack']} bytes of stack, {k['spill_stores']} of spill stores, {k['spill_loads']} of spill loads"
                for k in found if k["stack"] or k["spill_stores"] or k["spill_loads"]]
    problems += [line for line in said.splitlines() if GAVE_UP.search(line)]
    if problems:
        raise BuildError(f"{source.name} [{name}]:\n  " + "\n  ".join(problems))
    image = ptx + b"\n" if arch.startswith("ptx") else cubin
    return {"arch": name, "file": file, "sha256": hashlib.sha256(image).hexdigest(), "bytes": len(image), "kernels": found}, image, log


def up_to_date(folder, want):
    """Whether a folder has the files of an up-to-date build."""
    try:
        have = json.loads((folder / "manifest.json").read_text())
        if any(have[key] != want[key] for key in want) or [i["arch"] for i in have["images"]] != want_archs(want):
            return False
        for image in have["images"]:
            data = (folder / image["file"]).read_bytes()
            if image["file"].endswith(".gz"):
                data = gzip.decompress(data)
            if hashlib.sha256(data).hexdigest() != image["sha256"]:
                return False
    except (OSError, KeyError, ValueError, EOFError):
        return False
    return True


def differing(folder, files):
    """The names of files that differ, are missing or are superfluous in a folder. gzip levels do not count."""
    def content(name, data):
        return gzip.decompress(data) if name.endswith(".gz") else data

    names = {f.name for f in folder.iterdir()} if folder.is_dir() else set()
    other = sorted(names ^ set(files))
    for name in sorted(names & set(files)):
        try:
            same = content(name, (folder / name).read_bytes()) == content(name, files[name])
        except (OSError, EOFError):  # gzip.BadGzipFile is an OSError
            same = False
        if not same:
            other.append(name)
    return other


def want_archs(want):
    return [targets(a)[2] for a in want["archs"]]


def write(path, data):
    """Replaces a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
        f.write(data)
    os.chmod(f.name, 0o644)
    os.replace(f.name, path)


def layout(manifest):
    """JSON with one line per kernel."""
    text = json.dumps(manifest, indent=1)
    return re.sub(r"\{[^{}\[\]]*\}", lambda m: re.sub(r"\n\s*", " ", m.group(0)), text) + "\n"


def report(images):
    """One line per kernel with the figures of every image."""
    rows = {}
    for image in images:
        for k in image["kernels"]:
            rows.setdefault(k["symbol"], []).append(f"{image['arch'].removeprefix('sm_')}:{k['registers']}")
    for symbol, registers in rows.items():
        shared = max(k["shared"] for i in images for k in i["kernels"] if k["symbol"] == symbol)
        print(f"  {symbol}: registers {' '.join(registers)}, shared {shared}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAMES", help="sources to build, without .cu: hopper,mma (default: all)")
    parser.add_argument("--arch", default="", metavar="ARCHS", help="only these architectures: 90a,ptx90; needs --out")
    parser.add_argument("--out", type=pathlib.Path, default=ARTEFACTS, metavar="DIR", help="where to write (default: %(default)s)")
    parser.add_argument("--raw", action="store_true", help="write images uncompressed; needs --out")
    parser.add_argument("--ptx", action="store_true",
                        help="write PTX instead of machine code for older GPUs (75, 80, 86, 89); newer GPUs run it; needs --out")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE", help="define a macro; needs --out")
    parser.add_argument("--force", action="store_true", help="also build unchanged sources")
    parser.add_argument("--verify", action="store_true", help="build and compare without writing: exit code 1 if an image or manifest in --out differs")
    parser.add_argument("--nth", type=int, metavar="N", help="only the Nth source, modulo their number: for a job that checks another one each time")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="compilers at a time (default: %(default)s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each kernel's registers and shared memory")
    args = parser.parse_args()
    if args.out == ARTEFACTS and (args.raw or args.defines or args.arch or args.ptx):
        parser.error("--arch, --raw, --ptx and -D are for experiments: give --out")
    if args.only and args.nth is not None:
        parser.error("--nth is of all sources, --only names them: give one of the two")

    try:
        files = find_files()
    except BuildError as e:
        sys.exit(f"build_kernels: {e}")
    sources = {p.stem: p for _, p in sorted(files.items()) if p.suffix == ".cu"}
    folders = sorted({str(p.parent) for p in files.values()})
    only = [n.removesuffix(".cu") for n in re.split(r"[,\s]+", args.only) if n]
    for name in only:
        if name not in sources:
            parser.error(f"no source {name}.cu: expected one of {', '.join(sources)}")
    if args.nth is not None:
        only = [sorted(sources)[args.nth % len(sources)]]
    arch_only = [a for a in re.split(r"[,\s]+", args.arch) if a]

    try:
        tools = toolchain()
        wanted = {}
        for name in only or sources:
            source = sources[name]
            headers = includes(source, files)
            archs = [a for a in architectures(source) if not arch_only or a in arch_only]
            if args.ptx:
                archs = [f"ptx{a}" for a in archs if a.isdigit() and not is_later(a)]
                if not archs:
                    continue  # the source is for the newest GPUs only
            want = {"format": FORMAT, "source": source.name, "includes": headers, "sha256": digest(source, headers, files), "archs": archs,
                    "compilers": compilers(tools, archs),
                    "options": {"nvrtc": NVRTC_OPTIONS + [f"-D{d}" for d in args.defines], "ptxas": PTXAS_OPTIONS}}
            if args.force or args.verify or not up_to_date(args.out / name, want):
                wanted[name] = want
    except BuildError as e:
        sys.exit(f"build_kernels: {e}")

    failed = False
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        jobs = {name: [pool.submit(build_image, tools, sources[name], a, args.defines, folders) for a in want["archs"]]
                for name, want in wanted.items()}
        for name, futures in jobs.items():
            images, files, logs = [], {}, set()
            try:
                for entry, data, log in [f.result() for f in futures]:
                    if not args.raw:
                        entry["file"] += ".gz"
                        data = compress(data)
                    images.append(entry)
                    files[entry["file"]] = data
                    logs.update(line for line in log.splitlines() if "warning" in line)
            except BuildError as e:
                print(f"build_kernels: {e}", file=sys.stderr)
                failed = True
                continue
            for line in sorted(logs):
                print(line, file=sys.stderr)
            manifest = {**wanted[name], "images": images}
            files["manifest.json"] = layout(manifest).encode()
            if args.verify:
                other = differing(args.out / name, files)
                failed = failed or bool(other)
                print(f"{name}: {', '.join(other)} {'is' if len(other) == 1 else 'are'} not what the source makes" if other else
                      f"{name}: {len(images)} images and the manifest are what the source makes")
                continue
            for file, data in files.items():
                write(args.out / name / file, data)
            for stale in (args.out / name).iterdir():
                if stale.name not in files:
                    stale.unlink()
            print(f"{name}: {len(images)} images, {sum(map(len, files.values())) / 1024:.0f} KB")
            if args.verbose:
                report(images)
    if not only and not args.verify and args.out == ARTEFACTS and ARTEFACTS.exists():
        for folder in ARTEFACTS.iterdir():
            if folder.is_dir() and folder.name not in sources:
                shutil.rmtree(folder)
                print(f"{folder.name}: removed, its source is gone")
    if not wanted:
        print("device code is up to date")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    at_fixed_addresses()
    main()
