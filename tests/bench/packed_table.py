"""Packed sequences of very different lengths beside equally long ones with the same work."""

import itertools
import math
import random

import torch

import agreement
from attention_problem import Problem, make_inputs
from attnd_kernels import Options
from measurement import Contender, measure

SEQUENCES, LONGEST = 64, 8192
HEADS, HEAD_DIM = 16, 128
SEED = 20261130


def log_uniform_lengths():
    generator = random.Random(SEED)
    return [round(LONGEST ** generator.random()) for _ in range(SEQUENCES)]


def equal_length(lengths):
    """The length at which as many sequences have the same number of (row, key) pairs."""
    return round(math.sqrt(sum(n * n for n in lengths) / len(lengths)))


def packed_options(lengths, causal):
    sums = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device="cuda")
    return Options(causal=causal, cu_seqlens_q=sums, cu_seqlens_k=sums,
                   max_seqlen_q=max(lengths), max_seqlen_k=max(lengths))


def _packed_flops(lengths, causal):
    return sum(Problem(1, HEADS, n, HEAD_DIM, causal).flops for n in lengths)


def _exact_packed(out, tensors, causal, lengths):
    """The worst difference of a sequence from float64."""
    starts = itertools.accumulate([0, *lengths[:-1]])
    checks = [
        agreement.exact_difference(out, *tensors, Options(causal=causal), head=HEADS - 1,
                                   first=first, count=count)
        for first, count in zip(starts, lengths)
    ]
    return max(gap for gap, _ in checks), all(agrees for _, agrees in checks)


def packed_contenders(causal, lengths, order, library, fa3):
    packed = make_inputs(Problem(1, HEADS, sum(lengths), HEAD_DIM), order)
    options = packed_options(lengths, causal)
    work = _packed_flops(lengths, causal)
    equal = Problem(len(lengths), HEADS, equal_length(lengths), HEAD_DIM, causal)
    batch, plain = make_inputs(equal, order), Options(causal=causal)
    contenders = {
        "attnd packed": Contender(lambda: library.prepare(*packed, options), work,
                                  exact=lambda out: _exact_packed(out, packed, causal, lengths)),
        "attnd equal": Contender(
            lambda: library.prepare(*batch, plain), equal.flops,
            exact=lambda out: agreement.exact_difference(out, *batch, plain, equal.batch - 1)),
    }
    if fa3 is not None:
        contenders["FA3 packed"] = Contender(lambda: fa3.packed_attention(*packed, options), work,
                                             same_as="attnd packed")
        contenders["FA3 equal"] = Contender(lambda: fa3.attention(*batch, causal), equal.flops,
                                            same_as="attnd equal")
    return contenders


def _ratio(timed, name):
    """TFLOP/s packed over TFLOP/s of equal lengths."""
    pair = [timed.get(f"{name} {kind}") for kind in ("packed", "equal")]
    return pair[0].tflops / pair[1].tflops if None not in pair else None


def packed(order, library, fa3, report):
    lengths = log_uniform_lengths()
    print(f"\npacked, memory order {order}: {SEQUENCES} sequences of {min(lengths)} to "
          f"{max(lengths)}, {sum(lengths)} tokens, against {equal_length(lengths)} each: TFLOP/s")
    for causal in (False, True):
        row = measure(packed_contenders(causal, lengths, order, library, fa3))
        ratios = {name: _ratio(row.timed, name) for name in ("attnd", "FA3")}
        text = "  ".join(f"{name} {result.tflops:6.1f}" for name, result in row.timed.items())
        text += "".join(f"  {name} packed/equal {ratio:5.3f}"
                        for name, ratio in ratios.items() if ratio is not None)
        label = f"d {HEAD_DIM} H {HEADS} {'causal' if causal else 'full'}"
        report.add("packed", label, row, text, order=order, lengths=lengths, ratios=ratios)
