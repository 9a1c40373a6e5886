"""Finds and runs the program. A wheel contains it; a source installation uses the one in PATH."""
from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
from typing import Any, List, Optional, Sequence, Tuple

# Exit codes of `run` and `audit` with a judged run. 3 is not one: it may mean failure without a verdict.
VERDICTS = (0, 1, 4)


class ProgramError(RuntimeError):
    """The program failed or is missing. code is its exit code, None if it did not start."""

    def __init__(self, text: str, code: Optional[int] = None) -> None:
        super().__init__(text)
        self.code = code


def path() -> str:
    """The path of the program: from the environment variable GEMMAUDIT, this package, or PATH."""
    given = os.environ.get("GEMMAUDIT")
    if given:
        return given
    packaged = pathlib.Path(__file__).with_name("bin") / "gemmaudit"
    if packaged.is_file():
        return str(packaged)
    for folder in os.get_exec_path():
        found = os.path.join(folder, "gemmaudit")
        if os.access(found, os.X_OK) and os.path.isfile(found) and not _is_script(found):
            return found
    raise ProgramError("the program gemmaudit is neither in this package nor in PATH: install its wheel, or set GEMMAUDIT to its path")


def _is_script(file: str) -> bool:
    # pip's own gemmaudit command is in PATH too; it would start itself forever.
    with open(file, "rb") as f:
        return f.read(2) == b"#!"


def flags(given: "dict[str, Any]") -> List[str]:
    """Keyword arguments as flags: rounds_for="all" becomes --rounds-for=all; a list repeats the flag."""
    out = []
    for name, value in given.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None:
            continue
        for v in value if isinstance(value, (list, tuple)) else [value]:
            out.append(f"{flag}={str(v).lower() if isinstance(v, bool) else v}")
    return out


def listed(value: Any) -> List[Any]:
    """A value or a sequence of them as a list."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def kernels(given: Any) -> List[str]:
    """Values of --kernel: names, and paths of files. A text may be a list with commas, a path object is one file."""
    out = []
    for one in listed(given):
        if isinstance(one, str):
            out += [_as_path(word) if word.endswith((".py", ".so", ".dylib")) else word for word in one.split(",")]
        else:
            out.append(_as_path(os.fspath(one)))
    return out


def _as_path(file: str) -> str:
    # The flag takes a word without a slash for a kernel's name, and commas for its separators.
    path = file if "/" in file else os.path.join(".", file)
    return '"' + path.replace('"', '""') + '"' if "," in path or '"' in path else path


def interpreter(files: Sequence[Any]) -> Optional[str]:
    """This process's interpreter if a file is in Python."""
    python = any(str(file).strip('"').endswith(".py") for file in files)
    return sys.executable or None if python else None


def output(args: Sequence[str], accept: Tuple[int, ...] = (0,)) -> str:
    """The program's stdout. Raises ProgramError with its stderr if the exit code is not accepted."""
    done = _start([path(), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in accept:
        raise failure(args, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout.decode()


def execute(args: Sequence[str]) -> int:
    """Runs the program without stdout and returns its exit code. stderr is shared."""
    return _start([path(), *args], stdout=subprocess.DEVNULL).returncode


def _start(command: List[str], **streams: Any) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **streams)
    except OSError as e:
        raise ProgramError(f"{command[0]} can't be started: {e.strerror}") from e


def failure(args: Sequence[str], code: int, stderr: str = "") -> ProgramError:
    command = " ".join(shlex.quote(a) for a in ["gemmaudit", *args])
    return ProgramError(f"{command} ended with exit code {code}" + (f":\n{stderr.strip()}" if stderr.strip() else ""), code)
