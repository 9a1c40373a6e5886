"""Runs a launch until compilers and autotuners are done and its time no longer falls."""
import sys
import time

from .wire import Reporting

LEAST, MOST = 3, 50       # runs
ENOUGH, SHORT = 8, 0.5    # runs that are slow for a while agree too: at least so many, unless they take more seconds than this
FLAT = 16                 # runs without a time lower than before: the rest is noise of the machine
PATIENCE = 50.0           # seconds after the first run
WITHIN = 1.05             # of each other: the last LEAST times
JITTER = 3e-6             # seconds by which they may differ in any case
RECOMPILE_LIMIT = 1 << 14


def prime(device, launch, progress):
    """Returns the result of the call prime. progress(text) keeps the program patient."""
    specialise()
    begin = device.clock()
    with device.guarded(launch):
        times = runs(device, launch, progress)
    device.settled(launch)
    return {"seconds": times[-1], "runs": len(times), "warmup": device.clock() - begin}


def runs(device, launch, progress):
    """Runs the launch until its times agree, and returns them."""
    with Reporting(progress, "compiling"):
        times = [device.once(launch)]
    first_ended = time.monotonic()
    while not settled(times) or len(times) < ENOUGH and time.monotonic() - first_ended < SHORT:
        if len(times) >= MOST or time.monotonic() - first_ended > PATIENCE:
            break
        times.append(device.once(launch))
        progress("run %d" % len(times))
    return times


def settled(times):
    """Whether the last times agree, or fall no longer."""
    last, before = times[-LEAST:], times[:-FLAT]
    if before and min(before) <= WITHIN * min(times[-FLAT:]):
        return True
    return len(last) == LEAST and max(last) <= WITHIN * min(last) + JITTER


def specialise():
    """Makes torch.compile compile each shape by itself, and fail instead of falling back to eager."""
    dynamo = sys.modules.get("torch._dynamo")
    config = getattr(dynamo, "config", None)
    if config is None:
        return
    for names in (("recompile_limit", "cache_size_limit"), ("accumulated_recompile_limit", "accumulated_cache_size_limit")):
        for name in names:
            if hasattr(config, name):
                setattr(config, name, max(RECOMPILE_LIMIT, getattr(config, name)))
                break
    for name in ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"):
        if hasattr(config, name):
            setattr(config, name, not getattr(config, "suppress_errors", False))
            break
    if hasattr(config, "automatic_dynamic_shapes"):
        config.automatic_dynamic_shapes = False
