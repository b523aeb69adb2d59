"""attnd's fused kernel beside cuDNN, FlashAttention-2 and FlashAttention-3."""

import math

import torch

import agreement
from attention_problem import Problem, make_inputs
from attnd_kernels import Options
from contenders import torch_attention
from measurement import Contender, measure
from report import OURS
from side_by_side import BURSTS, SUSTAINED

LIBRARIES = ("cuDNN", "FA2", "FA3")
WORTH = 0.93  # of the best library: rows under it are counted


def contenders_of(problem, tensors, library, fa3):
    options = Options(causal=problem.causal)

    def exact(out):
        head = problem.heads - 1
        return agreement.exact_difference(out, *tensors, options, problem.batch - 1, head)

    def beside(make):
        return Contender(make, problem.flops, same_as=OURS)

    contenders = {
        OURS: Contender(lambda: library.prepare(*tensors, options), problem.flops, exact=exact),
        "cuDNN": beside(lambda: torch_attention("cuDNN", *tensors, problem.causal)),
        "FA2": beside(lambda: torch_attention("FA2", *tensors, problem.causal)),
    }
    if fa3 is not None:
        contenders["FA3"] = beside(lambda: fa3.attention(*tensors, problem.causal))
    return contenders


def measure_problem(problem, order, library, fa3, pace=BURSTS, inputs=make_inputs):
    """inputs: (problem, order) -> q, k, v."""
    return measure(contenders_of(problem, inputs(problem, order), library, fa3), pace)


def ratios_of(row):
    """Our TFLOP/s over those of each library, and of the best."""
    others = {name: result.tflops for name, result in row.timed.items() if name != OURS}
    if not others or OURS not in row.timed:
        return {}
    others["best"] = max(others.values())
    return {name: row.timed[OURS].tflops / tflops for name, tflops in others.items()}


def tflops_text(row, ratios):
    text = "  ".join(f"{name} {result.tflops:6.1f}" for name, result in row.timed.items())
    return text + (f"  ours/best {ratios['best']:5.3f}" if ratios else "")


def print_ratios(name, ratios):
    """ratios: (ours / theirs, label) of each row."""
    mean = math.exp(math.fsum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    worst, label = min(ratios)
    text = f"geometric mean {mean:5.3f} of {len(ratios)} rows, worst {worst:5.3f} at {label}"
    print(f"  ours/{name}: {text}")


def summarize(rows):
    """rows: (label, ratios_of a row). Prints how we stand against the best and each library."""
    for name in ("best", *LIBRARIES):
        ratios = [(ratios[name], label) for label, ratios in rows if name in ratios]
        if ratios:
            print_ratios(name, ratios)
    under = sum(ratios["best"] < WORTH for _, ratios in rows if ratios)
    print(f"  under {WORTH} of the best: {under} rows")


def _table(name, problems, order, library, fa3, report, pace=BURSTS):
    print(f"\n{name}, memory order {order}: TFLOP/s")
    rows = []
    for problem in problems:
        row = measure_problem(problem, order, library, fa3, pace)
        ratios = ratios_of(row)
        report.add(name, problem, row, tflops_text(row, ratios), order=order, ratios=ratios)
        rows.append((str(problem), ratios))
    summarize(rows)


def prefill_problems():
    """FlashAttention-3's table: 16384 tokens in all, hidden size 2048."""
    for head_dim, heads in ((64, 32), (128, 16), (256, 8)):
        for seqlen in (512, 1024, 2048, 4096, 8192, 16384):
            for causal in (False, True):
                yield Problem(16384 // seqlen, heads, seqlen, head_dim, causal)


def further_problems():
    for seqlen in (512, 2048, 8192):
        yield Problem(16384 // seqlen, 32, seqlen, 128, causal=True, kv_heads=8)
    yield Problem(8, 32, 2048, 64, dtype="float16")
    yield Problem(1, 32, 2048, 128, causal=True, dtype="float16")
    yield Problem(1, 32, 128, 128, causal=True, dtype="float16")
    for head_dim, head_dim_v in ((96, 96), (192, 192), (192, 128)):
        for causal in (False, True):
            yield Problem(4, 16, 4096, head_dim, causal, head_dim_v=head_dim_v)
    yield Problem(2, 16, 8192, 128, dtype="float16")


def prefill(order, library, fa3, report):
    _table("prefill", prefill_problems(), order, library, fa3, report)


def sustained(order, library, fa3, report):
    """The same problems at side_by_side.SUSTAINED."""
    _table("sustained", prefill_problems(), order, library, fa3, report, SUSTAINED)


def further(order, library, fa3, report):
    _table("further", further_problems(), order, library, fa3, report)


def _scaled(factor):
    """Inputs whose scores have that standard deviation."""

    def inputs(problem, order):
        q, k, v = make_inputs(problem, order)
        return q * factor, k, v

    return inputs


def _rising(problem, order):
    """Inputs whose scores rise by about 12 from each 128 keys to the 128 on their left: kernels walk
    keys from the right."""
    q, k, v = make_inputs(problem, order)
    q[..., 0] = math.sqrt(problem.head_dim)
    block = torch.arange(problem.seqlen, device="cuda") // 128
    k[..., 0] = 12.0 * (block.max() - block)
    return q, k, v


def spread(order, library, fa3, report):
    """Scores that spread more than those of random normal inputs: maxima move more often."""
    print(f"\nspread, memory order {order}: TFLOP/s")
    kinds = {"deviation 4": _scaled(4.0), "deviation 10": _scaled(10.0), "rising": _rising}
    for problem in (Problem(2, 16, 8192, 128), Problem(8, 16, 2048, 128, causal=True),
                    Problem(32, 16, 512, 128, causal=True)):
        for kind, inputs in kinds.items():
            row = measure_problem(problem, order, library, fa3, inputs=inputs)
            ratios = ratios_of(row)
            text = f"{kind:12}  {tflops_text(row, ratios)}"
            report.add("spread", problem, row, text, order=order, kind=kind, ratios=ratios)


def latency(order, library, fa3, report):
    """Launch to finish of a problem that a GPU hardly notices, one after the other in a graph."""
    problem = Problem(1, 32, 128, 128, causal=True)
    print(f"\nlatency, memory order {order}: microseconds")
    row = measure_problem(problem, order, library, fa3)
    text = "  ".join(f"{name} {1e3 * result.ms:6.2f}" for name, result in row.timed.items())
    report.add("latency", problem, row, text, order=order)
