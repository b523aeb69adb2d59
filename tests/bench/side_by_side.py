"""Times contenders side by side. Clock and power of a GPU drift within milliseconds under load, and
what ran before decides how much of either is left: so contenders take turns, in a new order each
round, and each runs untimed before it is timed. Compare figures of one call with each other only."""

import dataclasses
import math
import random
import subprocess
from collections.abc import Callable

import torch

GRAPH_MS = 6.0  # of work in one graph, roughly
MAX_REPEATS = 1000


@dataclasses.dataclass(frozen=True)
class Pace:
    """How contenders take turns: in each round every one's graph is replayed `untimed` times, then
    `timed` times."""

    rounds: int
    untimed: int
    timed: int


# All at about the same clock, that of their mixture: for contenders that draw about the same power.
BURSTS = Pace(rounds=9, untimed=1, timed=1)
# Each at the clock that the power limit leaves it when it runs alone, as a GPU has nothing but
# attention to do. In bursts, what draws little power pays for its neighbours.
SUSTAINED = Pace(rounds=3, untimed=16, timed=8)


def elapsed_ms(work):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


@dataclasses.dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    repeats: int  # of the run in the graph
    # Holds the tensors that the graph reads and writes: capturing the next contender returns to the
    # device what nobody holds.
    run: Callable


def _graph_of(run, repeats):
    graph = torch.cuda.CUDAGraph()
    # A capture that fails leaves its own stream current; the outer block restores this one.
    with torch.cuda.stream(torch.cuda.current_stream()):
        with torch.cuda.graph(graph):
            for _ in range(repeats):
                run()
    graph.replay()
    return graph


def capture(run):
    """Captured: as many runs as make about GRAPH_MS. `run` enqueues one run on the current stream,
    and must have run once before."""
    repeats = 1
    while True:
        graph = _graph_of(run, repeats)
        ms = elapsed_ms(graph.replay)
        if ms > 0.75 * GRAPH_MS or repeats == MAX_REPEATS:
            return Captured(graph, repeats, run)
        repeats = min(MAX_REPEATS, math.ceil(repeats * GRAPH_MS / max(ms, 1e-3)))


def sm_clock_mhz():
    """The SM clock now; None where nothing tells it."""
    try:
        return int(torch.cuda.clock_rate())
    except Exception:  # no nvidia-ml-py, or one of NVML's errors, which have a base of their own
        return _nvidia_smi_clock_mhz()


def _nvidia_smi_clock_mhz():
    query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "--id=0"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
        return int(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


_generator = random.Random(0)  # of all tables: a row has other orders than the row before


def _orders(names, rounds):
    """Not one order turned on: every contender would always follow the same one."""
    return [_generator.sample(names, len(names)) for _ in range(rounds)]


def _replay(contender, times):
    for _ in range(times):
        contender.graph.replay()


def interleaved_ms(captured, pace=BURSTS):
    """captured: name -> Captured. Returns the milliseconds of one run in each round,
    name -> [pace.rounds], and the SM clock in MHz, read while all graphs ran once more: that of
    their mixture, at any pace."""
    times = {name: [] for name in captured}
    for order in _orders(list(captured), pace.rounds):
        for name in order:
            contender = captured[name]
            _replay(contender, pace.untimed)
            ms = elapsed_ms(lambda: _replay(contender, pace.timed))
            times[name].append(ms / (pace.timed * contender.repeats))
    for contender in captured.values():
        contender.graph.replay()
    clock = sm_clock_mhz()
    torch.cuda.synchronize()
    return times, clock
