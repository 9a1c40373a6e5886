"""Compares the device that PyTorch sees with the conditions of a table."""
from __future__ import annotations

import ctypes
import re
from typing import Any, Dict, List, Tuple

import torch

from .table import Table, Validators


def conditions(table: Table, device: torch.device) -> List[Tuple[str, str, str]]:
    """Differences between a device and the table: name, value in the table, value here."""
    held = table.validators
    return Validators(
        device=held.device, driver=held.driver, libraries=held.libraries, arch=held.arch, cores=held.cores, threads=held.threads,
    ).differences(validators(device))


def validators(device: torch.device) -> Validators:
    """The conditions of a device, as far as PyTorch reports them."""
    if device.type == "cuda":
        p = torch.cuda.get_device_properties(device)
        torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]  # loads the library
        return Validators(device=p.name, driver=_driver(), libraries=_libraries(), cores=p.multi_processor_count)
    if device.type == "cpu":
        return Validators(device=_processor(), threads=torch.get_num_threads())
    return Validators(device=device.type)


def _driver() -> str:
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as f:
            return f.read().strip()
    except (OSError, ValueError):
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            found = re.search(r"^model name\s*:\s*(.*)$", f.read(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _libraries() -> Dict[str, str]:
    """Versions of the loaded libraries, from the libraries themselves."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            paths = {line.split()[-1] for line in f if "/libcublas" in line}
    except OSError:
        return {}
    found: Dict[str, str] = {}
    for path in sorted(paths):
        for name, file, function in (("cublas", "libcublas.so", "cublasGetProperty"), ("cublaslt", "libcublasLt.so", "cublasLtGetProperty")):
            if "/" + file in path:
                version = _version(path, function)
                if version:
                    found[name] = version
    return found


def _version(path: str, function: str) -> str:
    try:
        ask: Any = getattr(ctypes.CDLL(path), function)
    except (OSError, AttributeError):
        return ""
    words = []
    for which in range(3):  # major, minor, patch
        value = ctypes.c_int()
        if ask(which, ctypes.byref(value)) != 0:
            return ""
        words.append(str(value.value))
    return ".".join(words)
