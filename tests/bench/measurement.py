"""One row of a benchmark table: runs its contenders, checks that they agree, times them."""

import dataclasses
import math
import statistics
from collections.abc import Callable

import torch

import agreement
import side_by_side


@dataclasses.dataclass
class Contender:
    make: Callable  # returns run(), which enqueues one run and returns its output
    flops: float
    same_as: str | None = None  # the contender whose output its own must equal
    exact: Callable | None = None  # output -> agreement.difference() from float64


@dataclasses.dataclass
class Result:
    """What a contender did; without times where it refused."""

    flops: float
    refusal: str | None = None
    captured: side_by_side.Captured | None = None
    out: torch.Tensor | None = None
    extra_mib: float | None = None  # allocated beside inputs and output
    difference: float | None = None
    wrong: bool = False
    times_ms: list = dataclasses.field(default_factory=list)

    @property
    def ms(self):
        return statistics.median(self.times_ms)

    @property
    def tflops(self):
        return self.flops / self.ms / 1e9

    def figures(self):
        if self.refusal is not None:
            return dict(refusal=self.refusal)
        spread = (max(self.times_ms) - min(self.times_ms)) / self.ms
        return dict(ms=self.ms, spread=spread, tflops=self.tflops, difference=self.difference,
                    wrong=self.wrong, extra_mib=self.extra_mib)


@dataclasses.dataclass
class Row:
    results: dict  # name -> Result
    sm_clock_mhz: int | None

    @property
    def timed(self):
        return {name: result for name, result in self.results.items() if result.times_ms}

    @property
    def wrong(self):
        return [name for name, result in self.results.items() if result.wrong]


def _first_run(contender):
    """Output, memory and graph of a contender; a refusal where it raises."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    try:
        run = contender.make()
        out = run()
        torch.cuda.synchronize()
        extra = torch.cuda.max_memory_allocated() - before - out.nbytes
        captured = side_by_side.capture(run)
    except Exception as error:  # each library refuses in a way of its own
        reason = str(error).strip().splitlines() or [""]
        return Result(contender.flops, refusal=f"{type(error).__name__}: {reason[0][:200]}")
    return Result(contender.flops, captured=captured, out=out, extra_mib=extra / 2**20)


def _check(contender, results, result):
    """Sets difference and wrong of a result. Nothing to compare with leaves them unset."""
    checks = []
    if contender.exact is not None:
        checks.append(contender.exact(result.out))
    other = results.get(contender.same_as)
    if other is not None and other.out is not None:
        checks.append(agreement.difference(result.out.float(), other.out.float()))
    if checks:
        differences = [gap for gap, _ in checks]
        result.difference = math.nan if any(map(math.isnan, differences)) else max(differences)
        result.wrong = not all(agrees for _, agrees in checks)


def measure(contenders, pace=side_by_side.BURSTS):
    """contenders: name -> Contender. Those that raise are left out of the timing."""
    results = {name: _first_run(contender) for name, contender in contenders.items()}
    captured = {name: r.captured for name, r in results.items() if r.captured is not None}
    for name in captured:
        _check(contenders[name], results, results[name])
    times, clock = side_by_side.interleaved_ms(captured, pace)
    for name in captured:
        results[name].times_ms = times[name]
    return Row(results, clock)
