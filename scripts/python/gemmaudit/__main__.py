"""The command `gemmaudit` and `python -m gemmaudit`: replaces itself with the program, which keeps exit codes and signals."""
import os
import sys

from . import program


def main() -> None:
    try:
        found = program.path()
        os.execv(found, ["gemmaudit", *sys.argv[1:]])
    except (program.ProgramError, OSError) as e:
        sys.exit(f"gemmaudit: error: {e}")


if __name__ == "__main__":
    main()
