"""Times contenders side by side. Clock and power of a GPU drift within milliseconds under load, so
contenders take turns: in each round every contender's CUDA graph is replayed once untimed and once
timed. All of them see the same drift; compare figures of one call with each other only."""

import dataclasses
import math
import subprocess
from collections.abc import Callable

import torch

ROUNDS = 5
GRAPH_MS = 6.0  # of work in one graph, roughly
MAX_REPEATS = 1000


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


def interleaved_ms(captured):
    """captured: name -> Captured. Returns the milliseconds of one run in each round,
    name -> [ROUNDS], and the SM clock in MHz, read while all graphs ran once more."""
    times = {name: [] for name in captured}
    for _ in range(ROUNDS):
        for name, contender in captured.items():
            contender.graph.replay()
            times[name].append(elapsed_ms(contender.graph.replay) / contender.repeats)
    for contender in captured.values():
        contender.graph.replay()
    clock = sm_clock_mhz()
    torch.cuda.synchronize()
    return times, clock
