"""Starts the worker: PYTHON -u -c BOOT, or as a file of this folder. docs/worker.md describes the descriptors.

With -c, the first line of requests is {"modules": {"NAME": "source"}}: the worker's own modules.
"""
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # with -c, files of the current folder would hide modules of the same name

import importlib.abc
import importlib.util
import json
import linecache
import os

PACKAGE = "gemmaudit_worker"


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the worker's modules among sources in memory."""

    def __init__(self, sources):
        self.sources = {PACKAGE: ""}
        for name, source in sources.items():
            self.sources[PACKAGE + "." + name] = source

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self.sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self.origin(fullname), is_package=fullname == PACKAGE)

    def origin(self, fullname):
        return "<" + fullname.replace(".", "/") + ".py>"

    def get_source(self, fullname):
        return self.sources[fullname]

    def get_code(self, fullname):
        source, name = self.sources[fullname], self.origin(fullname)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        return compile(source, name, "exec", dont_inherit=True)


def beside(folder):
    """The modules next to this file, for development."""
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".py") and name != "boot.py":
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                found[name[:-3]] = f.read()
    return found


def start():
    requests = os.fdopen(3, "rb")
    if globals().get("__file__"):
        folder = os.path.dirname(os.path.abspath(__file__))
        sys.path[:] = [p for p in sys.path if os.path.abspath(p) != folder]  # kernel.py and others are modules of the package only
        sources = beside(folder)
    else:
        line = requests.readline()
        if not line:
            return
        sources = json.loads(line)["modules"]
    sys.meta_path.insert(0, Sources(sources))
    from gemmaudit_worker import main

    main.run(requests)


start()
