"""Times libattnd_kernels.so and PyTorch's attention backends side by side: the same tensors, the
same GPU, one run, contenders taking turns.

    python3 compare_torch_cuda.py --library build/cuda/kernels/libattnd_kernels.so --json out.json

Prints four tables: the fused kernel over head dimensions and lengths, one query row over long keys,
naive against PyTorch's math backend, and the ladder of generations with bytes moved, memory beside
inputs and outputs, and error against float64. Times are medians of graph replays. The exit status
is 1 where an output of ours differs from PyTorch's.
"""

import argparse
import sys

import torch

from attention_problem import Problem, make_inputs
from attnd_kernels import Library, Options
from contenders import torch_attention
from measurement import Contender, measure
from report import OURS, Report, versions

ORDER = "bhsd"  # as torch's attention has its tensors by default


def measure_beside(problem, tensors, library, algorithm, backends):
    """One of our algorithms and some of PyTorch's backends."""
    options = Options(causal=problem.causal)
    contenders = {
        OURS: Contender(lambda: library.prepare(*tensors, options, algorithm), problem.flops)
    }
    for name in backends:
        contenders[name] = Contender(
            lambda name=name: torch_attention(name, *tensors, problem.causal), problem.flops,
            same_as=OURS)
    return measure(contenders)


def row_text(row, figure):
    """figure(Result) of each; for the others in brackets their time over ours."""
    ours = row.timed.get(OURS)
    parts = []
    for name, result in row.timed.items():
        ratio = f" ({result.ms / ours.ms:4.2f})" if ours is not None and name != OURS else ""
        parts.append(f"{name} {figure(result)}{ratio}")
    return "  ".join(parts)


def fused_problems(quick):
    lengths = (512, 2048, 8192) if quick else (512, 1024, 2048, 4096, 8192, 16384)
    for head_dim, heads in ((64, 32), (128, 16), (256, 8)):
        for seqlen in lengths:
            for causal in (False, True):
                yield Problem(16384 // seqlen, heads, seqlen, head_dim, causal)
    for head_dim, heads in ((32, 64), (96, 20), (192, 10)):
        yield Problem(8, heads, 2048, head_dim)
    yield Problem(8, 32, 2048, 128, causal=True, kv_heads=8)
    yield Problem(8, 32, 2048, 64, dtype="float16")
    yield Problem(1, 32, 128, 128, causal=True, dtype="float16")
    for head_dim, heads in ((64, 32), (128, 16)):
        yield Problem(2, heads, 2048, head_dim, dtype="float32")


def compare_fused(library, report, quick):
    print("\nfused: TFLOP/s of each; in brackets time of torch / of attnd, above 1: attnd wins")
    for problem in fused_problems(quick):
        tensors = make_inputs(problem, ORDER)
        row = measure_beside(problem, tensors, library, "fused", ("FA2", "cuDNN", "efficient"))
        report.add("fused", problem, row, row_text(row, lambda result: f"{result.tflops:6.1f}"))


def compare_decode(library, report):
    print("\none query row, 32 heads over 8: GB/s of k and v; in brackets time of torch / of attnd")
    for batch, seqlen in ((1, 1024), (1, 8192), (16, 8192), (64, 8192)):
        problem = Problem(batch, 32, seqlen, 128, kv_heads=8, seqlen_q=1)
        q, k, v = make_inputs(problem, ORDER)
        row = measure_beside(problem, (q, k, v), library, "fused", ("FA2", "cuDNN"))
        size = k.nbytes + v.nbytes
        text = row_text(row, lambda result: f"{size / result.ms / 1e6:7.1f} ({result.ms:.4f} ms)")
        report.add("decode", problem, row, text)


def compare_naive(library, report):
    print("\nnaive: ms of each; in brackets time of torch / time of attnd")
    for problem in (
        Problem(8, 16, 1024, 64, dtype="float16"),
        Problem(4, 32, 2048, 64),
        Problem(2, 16, 4096, 128, causal=True),
        Problem(4, 16, 2048, 128, dtype="float32"),
    ):
        row = measure_beside(problem, make_inputs(problem, ORDER), library, "naive", ("math",))
        report.add("naive", problem, row, row_text(row, lambda result: f"{result.ms:8.3f}"))


def least_bytes(problem, algorithm, tensors):
    """Device memory traffic that an algorithm cannot avoid: each tensor once, and for naive the
    float32 score matrix four times (scores written and read, weights written and read)."""
    matrix = 4 * problem.batch * problem.heads * problem.seqlen**2
    return sum(t.nbytes for t in tensors) + (4 * matrix if algorithm == "naive" else 0)


def exact_heads(problem, q, k, v, heads):
    """Attention of the first sequence's first heads in float64."""
    q, k, v = (t[:1, :heads].double() for t in (q, k, v))
    return torch.softmax(q @ k.transpose(2, 3) * problem.head_dim**-0.5, dim=3) @ v


def error_figures(out, reference):
    error = (out[:1, : reference.shape[1]].double() - reference).abs()
    relative = (error.norm() / reference.norm()).item()
    return dict(max_error=error.max().item(), relative_error=relative)


def generation_contenders(problem, tensors, library):
    contenders = {}
    for name in ("naive", "two_pass", "online", "fused"):
        contenders[f"{OURS} {name}"] = Contender(
            lambda name=name: library.prepare(*tensors, algorithm=name), problem.flops)
    for name in ("math", "FA2", "cuDNN"):
        contenders[name] = Contender(
            lambda name=name: torch_attention(name, *tensors), problem.flops,
            same_as=f"{OURS} naive")
    return contenders


def compare_generations(library, report):
    problem = Problem(8, 32, 2048, 64, dtype="float16")
    print("\ngenerations: least traffic, memory beside inputs and output, error against float64")
    tensors = make_inputs(problem, ORDER)
    reference = exact_heads(problem, *tensors, heads=2)
    row = measure(generation_contenders(problem, tensors, library))
    figures, lines = {}, []
    for name, result in row.timed.items():
        algorithm = name.removeprefix(f"{OURS} ")
        error = error_figures(result.out, reference)
        least_gib = least_bytes(problem, algorithm, (*tensors, result.out)) / 2**30
        figures[name] = dict(error, least_gib=least_gib)
        lines.append(
            f"  {name:14} {result.ms:9.3f} ms {result.tflops:7.1f} TFLOP/s"
            f"  least traffic {least_gib:6.2f} GiB  extra memory {result.extra_mib:8.1f} MiB"
            f"  max error {error['max_error']:.2e}  relative {error['relative_error']:.2e}"
        )
    report.add("generations", problem, row, "", figures=figures)
    print(*lines, sep="\n")


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", required=True, help="path of libattnd_kernels.so")
    parser.add_argument("--json", help="where to write all figures")
    parser.add_argument("--quick", action="store_true", help="three lengths instead of six")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    facts = versions()
    print(facts)
    report = Report(arguments.json, **facts)
    report.fill("fused", compare_fused, library, report, arguments.quick)
    report.fill("decode", compare_decode, library, report)
    report.fill("naive", compare_naive, library, report)
    report.fill("generations", compare_generations, library, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
