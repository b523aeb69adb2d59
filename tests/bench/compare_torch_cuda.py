"""Times libattnd_kernels.so and PyTorch's attention backends side by side: the same tensors, the
same GPU, one run.

    python3 compare_torch_cuda.py --library build/cuda/kernels/libattnd_kernels.so --json out.json

Prints four tables: the fused kernel over head dimensions and lengths, one query row over long keys,
naive against PyTorch's math backend, and the ladder of generations with bytes moved, memory beside
inputs and outputs, and error against float64. Times are medians of graph replays.
"""

import argparse
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnd_kernels import Library

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
REPLAYS = 7
GRAPH_MS = 10  # of work in one graph, roughly


def case_of(b, h, n, d, causal=False, dtype="bfloat16", hkv=None, nq=None):
    return dict(b=b, h=h, hkv=hkv or h, nq=nq or n, n=n, d=d, causal=causal, dtype=dtype)


def make_inputs(case):
    torch.manual_seed(case["n"] + case["d"])
    options = dict(device="cuda", dtype=getattr(torch, case["dtype"]))
    q = torch.randn(case["b"], case["h"], case["nq"], case["d"], **options)
    k = torch.randn(case["b"], case["hkv"], case["n"], case["d"], **options)
    return q, k, torch.randn_like(k)


def flops(case):
    total = 4.0 * case["b"] * case["h"] * case["nq"] * case["n"] * case["d"]
    return total / 2 if case["causal"] else total


def elapsed_ms(work):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def median_ms(run):
    """Median milliseconds of one run, measured by replaying a graph of several."""
    run()
    torch.cuda.synchronize()
    repeats = max(1, min(50, int(GRAPH_MS / max(elapsed_ms(run), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            run()
    graph.replay()
    times = [elapsed_ms(graph.replay) / repeats for _ in range(REPLAYS)]
    return sorted(times)[len(times) // 2]


def time_torch(case, q, k, v, backend):
    """(ms, MiB allocated beside inputs and output, output); None where the backend refuses."""
    gqa = case["h"] != case["hkv"]

    def run():
        return F.scaled_dot_product_attention(q, k, v, is_causal=case["causal"], enable_gqa=gqa)

    try:
        with sdpa_kernel(BACKENDS[backend]):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            out = run()
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before - out.nbytes
            return median_ms(run), peak / 2**20, out
    except (RuntimeError, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return None


def time_attnd(library, case, q, k, v, algorithm):
    run, out, workspace = library.prepare(q, k, v, case["causal"], algorithm)
    return median_ms(run), workspace / 2**20, out


def describe(case):
    mask = "causal" if case["causal"] else "full"
    heads = f"{case['h']}" + (f"/{case['hkv']}" if case["h"] != case["hkv"] else "")
    return f"{case['dtype']:>8} B{case['b']} H{heads} N{case['n']} D{case['d']} {mask}"


def fused_cases(quick):
    lengths = (512, 2048, 8192) if quick else (512, 1024, 2048, 4096, 8192, 16384)
    for d, h in ((64, 32), (128, 16), (256, 8)):
        for n in lengths:
            for causal in (False, True):
                yield case_of(16384 // n, h, n, d, causal)
    for d, h in ((32, 64), (96, 20), (192, 10)):
        yield case_of(8, h, 2048, d)
    yield case_of(8, 32, 2048, 128, causal=True, hkv=8)
    yield case_of(8, 32, 2048, 64, dtype="float16")
    yield case_of(1, 32, 128, 128, causal=True, dtype="float16")
    for d, h in ((64, 32), (128, 16)):
        yield case_of(2, h, 2048, d, dtype="float32")


def compare_fused(library, quick):
    print("\nfused: TFLOP/s of each; in brackets time of torch / time of attnd, above 1: attnd wins")
    rows = []
    for case in fused_cases(quick):
        q, k, v = make_inputs(case)
        ms, _, out = time_attnd(library, case, q, k, v, "fused")
        row = dict(case, attnd_ms=ms)
        text = f"{describe(case):40} attnd {flops(case) / ms / 1e9:6.1f}"
        for name in ("flash", "cudnn", "efficient"):
            timed = time_torch(case, q, k, v, name)
            if timed is None:
                continue
            row[name + "_ms"] = timed[0]
            row[name + "_difference"] = (timed[2].float() - out.float()).abs().max().item()
            text += f"  {name} {flops(case) / timed[0] / 1e9:6.1f} ({timed[0] / ms:4.2f})"
        print(text, flush=True)
        rows.append(row)
    return rows


def compare_decode(library):
    print("\none query row, 32 heads over 8, D128: GB/s of k and v; in brackets time of torch / of attnd")
    rows = []
    for b, n in ((1, 1024), (1, 8192), (16, 8192), (64, 8192)):
        case = case_of(b, 32, n, 128, hkv=8, nq=1)
        q, k, v = make_inputs(case)
        ms, _, _ = time_attnd(library, case, q, k, v, "fused")
        row = dict(case, attnd_ms=ms)
        text = f"B{b} keys {n}: attnd {(k.nbytes + v.nbytes) / ms / 1e6:7.1f} ({ms:.4f} ms)"
        for name in ("flash", "cudnn"):
            timed = time_torch(case, q, k, v, name)
            if timed is None:
                continue
            row[name + "_ms"] = timed[0]
            text += f"  {name} {(k.nbytes + v.nbytes) / timed[0] / 1e6:7.1f} ({timed[0] / ms:4.2f})"
        print(text, flush=True)
        rows.append(row)
    return rows


def compare_naive(library):
    print("\nnaive: ms of each; in brackets time of torch / time of attnd")
    rows = []
    for case in (
        case_of(8, 16, 1024, 64, dtype="float16"),
        case_of(4, 32, 2048, 64),
        case_of(2, 16, 4096, 128, causal=True),
        case_of(4, 16, 2048, 128, dtype="float32"),
    ):
        q, k, v = make_inputs(case)
        ms, _, _ = time_attnd(library, case, q, k, v, "naive")
        timed = time_torch(case, q, k, v, "math")
        rows.append(dict(case, attnd_ms=ms, math_ms=timed[0] if timed else None))
        math = f"math {timed[0]:8.3f} ({timed[0] / ms:4.2f})" if timed else "math refused"
        print(f"{describe(case):40} attnd {ms:8.3f}  {math}", flush=True)
    return rows


def least_bytes(case, algorithm, tensors):
    """Device memory traffic that an algorithm cannot avoid: each tensor once, and for naive the
    float32 score matrix four times (scores written and read, weights written and read)."""
    matrix = 4 * case["b"] * case["h"] * case["n"] ** 2
    return sum(t.nbytes for t in tensors) + (4 * matrix if algorithm == "naive" else 0)


def exact_heads(case, q, k, v, heads):
    """Attention of the first sequence's first heads in float64."""
    q, k, v = (t[:1, :heads].double() for t in (q, k, v))
    return torch.softmax(q @ k.transpose(2, 3) * case["d"] ** -0.5, dim=3) @ v


def ladder_row(case, name, timed, tensors, reference):
    ms, extra_mib, out = timed
    error = (out[:1, : reference.shape[1]].double() - reference).abs()
    return dict(
        name=name,
        ms=ms,
        tflops=flops(case) / ms / 1e9,
        least_gib=least_bytes(case, name, tensors) / 2**30,
        extra_mib=extra_mib,
        max_error=error.max().item(),
        relative_error=(error.norm() / reference.norm()).item(),
    )


def compare_generations(library):
    case = case_of(8, 32, 2048, 64, dtype="float16")
    print(f"\ngenerations on {describe(case)}")
    q, k, v = make_inputs(case)
    reference = exact_heads(case, q, k, v, heads=2)
    runs = [(name, lambda name=name: time_attnd(library, case, q, k, v, name))
            for name in ("naive", "two_pass", "online", "fused")]
    runs += [("torch " + name, lambda name=name: time_torch(case, q, k, v, name))
             for name in ("math", "flash", "cudnn")]
    rows = []
    for name, time in runs:
        timed = time()
        if timed is None:
            continue
        row = ladder_row(case, name, timed, (q, k, v, timed[2]), reference)
        rows.append(row)
        print(
            f"{name:12} {row['ms']:9.3f} ms {row['tflops']:7.1f} TFLOP/s"
            f"  least traffic {row['least_gib']:6.2f} GiB  extra memory {row['extra_mib']:8.1f} MiB"
            f"  max error {row['max_error']:.2e}  relative {row['relative_error']:.2e}",
            flush=True,
        )
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", required=True, help="path of libattnd_kernels.so")
    parser.add_argument("--json", help="where to write all figures")
    parser.add_argument("--quick", action="store_true", help="three lengths instead of six")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    versions = dict(
        device=torch.cuda.get_device_name(0),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version(),
    )
    print(versions)
    results = dict(versions, fused=compare_fused(library, arguments.quick))
    results["decode"] = compare_decode(library)
    results["naive"] = compare_naive(library)
    results["generations"] = compare_generations(library)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
