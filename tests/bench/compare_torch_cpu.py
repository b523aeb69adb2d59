#!/usr/bin/env python3
"""Times attnd's CPU attention against torch's scaled_dot_product_attention, side by side in one run.

Both get the same tensors and the same number of threads; they take turns, call by call, so that
whatever else the machine does hits both. Prints a Markdown table of medians and ratios (above 1:
attnd is faster), after checking that both results agree.

  compare_torch_cpu.py --library build/cpu/kernels/libattnd_kernels.so [--threads N] [--filter TEXT]

Needs torch (PyPI) and nothing else; libattnd_kernels.so is called through its C ABI.
"""

import argparse
import ctypes
import dataclasses
import itertools
import math
import statistics
import threading
import time

import torch

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, TASK, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """attnd_tensor."""

    _fields_ = [("data", ctypes.c_void_p)] + [
        (name, ctypes.c_int64)
        for name in ("dtype", "batch", "seqlen", "heads", "dim",
                     "batch_stride", "seq_stride", "head_stride")
    ]


class ScoreArray(ctypes.Structure):
    """attnd_score_array."""

    _fields_ = [("data", ctypes.c_void_p)] + [
        (name, ctypes.c_int64)
        for name in ("dtype", "batch", "heads", "rows", "cols",
                     "batch_stride", "head_stride", "row_stride")
    ]


class Params(ctypes.Structure):
    """attnd_attention_params."""

    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [(name, ctypes.c_int64)
           for name in ("batch_size", "seqlen_q", "seqlen_k", "num_heads", "num_kv_heads",
                        "head_dim", "head_dim_v")]
        + [(name, Tensor) for name in ("q", "k", "v", "out")]
        + [("lse", ctypes.c_void_p), ("lse_batch_stride", ctypes.c_int64),
           ("lse_head_stride", ctypes.c_int64)]
        + [(name, ctypes.c_void_p)
           for name in ("probs", "cu_seqlens_q", "cu_seqlens_k", "lengths_q", "lengths_k")]
        + [("has_softmax_scale", ctypes.c_int32), ("softmax_scale", ctypes.c_float),
           ("softcap", ctypes.c_float), ("causal", ctypes.c_int32),
           ("has_window_left", ctypes.c_int32), ("has_window_right", ctypes.c_int32),
           ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64)]
        + [("mask", ScoreArray), ("bias", ScoreArray), ("alibi_slopes", ctypes.c_void_p),
           ("alibi_batch_stride", ctypes.c_int64), ("sinks", ctypes.c_void_p)]
    )


class Execution(ctypes.Structure):
    """attnd_execution."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("backend", ctypes.c_int64),
        ("algorithm", ctypes.c_char_p), ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64), ("parallel_for", PARALLEL_FOR),
        ("parallel_for_context", ctypes.c_void_p), ("stream", ctypes.c_void_p),
        ("compute_capability", ctypes.c_int64), ("num_multiprocessors", ctypes.c_int64),
        ("shared_memory_per_block_bytes", ctypes.c_int64),
    ]


class ThreadPool:
    """Runs the kernel's tasks. ctypes lets go of the interpreter while a task runs."""

    def __init__(self, num_threads):
        self.num_threads = num_threads
        self.loop = None
        self.start = [threading.Semaphore(0) for _ in range(num_threads - 1)]
        self.done = threading.Semaphore(0)
        for start in self.start:
            threading.Thread(target=self._work, args=(start,), daemon=True).start()
        self.callback = PARALLEL_FOR(self._parallel_for)

    def _work(self, start):
        while True:
            start.acquire()
            self._run_tasks()
            self.done.release()

    def _run_tasks(self):
        counter, num_tasks, task, context = self.loop
        for i in counter:
            if i >= num_tasks:
                return
            task(context, i)

    def _parallel_for(self, _, num_tasks, task, context):
        self.loop = (itertools.count(), num_tasks, task, context)
        for start in self.start:
            start.release()
        self._run_tasks()
        for _ in self.start:
            self.done.acquire()


class Attention:
    """attnd_attention of libattnd_kernels.so on torch tensors [batch, heads, seqlen, dim]."""

    def __init__(self, path, pool):
        self.library = ctypes.CDLL(path)
        self.library.attnd_last_error.restype = ctypes.c_char_p
        self.pool = pool

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.library.attnd_last_error().decode())

    @staticmethod
    def _describe(t):
        batch, heads, seqlen, dim = t.shape
        return Tensor(t.data_ptr(), DTYPES[t.dtype], batch, seqlen, heads, dim,
                      t.stride(0), t.stride(2), t.stride(1))

    def prepare(self, q, k, v, causal):
        """Returns the result and a function that computes it."""
        out = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype)
        params = Params(struct_size=ctypes.sizeof(Params), batch_size=q.shape[0],
                        num_heads=q.shape[1], seqlen_q=q.shape[2], num_kv_heads=k.shape[1],
                        seqlen_k=k.shape[2], head_dim=q.shape[3], head_dim_v=v.shape[3],
                        q=self._describe(q), k=self._describe(k), v=self._describe(v),
                        out=self._describe(out), causal=causal)
        execution = Execution(struct_size=ctypes.sizeof(Execution), algorithm=b"fused")
        if self.pool.num_threads > 1:
            execution.parallel_for = self.pool.callback
        size = ctypes.c_int64()
        self._check(self.library.attnd_attention_workspace(
            ctypes.byref(params), ctypes.byref(execution), ctypes.byref(size)))
        workspace = torch.empty(size.value + 256, dtype=torch.uint8)
        execution.workspace = (workspace.data_ptr() + 255) // 256 * 256
        execution.workspace_bytes = size.value
        keep = (q, k, v, out, workspace)

        def run():
            self._check(self.library.attnd_attention(ctypes.byref(params),
                                                     ctypes.byref(execution)))
            return keep

        return out, run


@dataclasses.dataclass(frozen=True)
class Shape:
    dtype: torch.dtype
    batch_size: int
    num_heads: int
    num_kv_heads: int
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    causal: bool

    def __str__(self):
        heads = str(self.num_heads)
        if self.num_heads != self.num_kv_heads:
            heads += f"/{self.num_kv_heads}"
        return (f"{str(self.dtype)[6:]} B {self.batch_size} H {heads} "
                f"N {self.seqlen_q} x {self.seqlen_k} D {self.head_dim} "
                f"{'causal' if self.causal else 'full'}")

    def flops(self):
        pairs = self.seqlen_q * self.seqlen_k / (2 if self.causal else 1)
        return 4 * self.batch_size * self.num_heads * pairs * self.head_dim

    def key_value_bytes(self):
        return (2 * self.batch_size * self.num_kv_heads * self.seqlen_k * self.head_dim
                * self.dtype.itemsize)


def shapes():
    """Prefill, decoding of one token, and one tiny problem."""
    for dtype in DTYPES:
        lengths = (512, 1024, 2048, 4096) if dtype == torch.float32 else (512, 2048)
        for head_dim, seqlen, causal in itertools.product((64, 128), lengths, (False, True)):
            yield Shape(dtype, 1, 8, 8, seqlen, seqlen, head_dim, causal)
        yield Shape(dtype, 2, 16, 16, 512, 512, 64, True)
        yield Shape(dtype, 1, 8, 8, 1, 16384, 128, False)
        yield Shape(dtype, 1, 32, 8, 1, 16384, 128, False)
        yield Shape(dtype, 16, 8, 8, 1, 1024, 64, False)
        yield Shape(dtype, 1, 1, 1, 16, 16, 64, False)


def tolerance(dtype):
    return 1e-5 if dtype == torch.float32 else 2e-2


def time_in_turns(functions, seconds, clock):
    """Median seconds of each function, called in turns after one call to warm up."""
    times = [[] for _ in functions]
    for function in functions:
        function()
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or len(times[0]) < 5:
        for function, samples in zip(functions, times):
            begin = clock()
            function()
            samples.append(clock() - begin)
    return [statistics.median(samples) for samples in times]


def compare(shape, attention, seconds, clock):
    generator = torch.Generator().manual_seed(1)

    def random(heads, seqlen):
        return torch.randn(shape.batch_size, heads, seqlen, shape.head_dim,
                           generator=generator).to(shape.dtype)

    q = random(shape.num_heads, shape.seqlen_q)
    k = random(shape.num_kv_heads, shape.seqlen_k)
    v = random(shape.num_kv_heads, shape.seqlen_k)
    out, run = attention.prepare(q, k, v, shape.causal)

    def run_torch():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=shape.causal, enable_gqa=shape.num_heads != shape.num_kv_heads)

    run()
    difference = (out.float() - run_torch().float()).abs().max().item()
    if not difference <= tolerance(shape.dtype):
        raise RuntimeError(f"{shape}: results differ by {difference}")
    return time_in_turns([run, run_torch], seconds, clock)


def rate(shape, seconds):
    if shape.seqlen_q == 1:
        return f"{shape.key_value_bytes() / seconds / 1e9:.1f} GB/s"
    return f"{shape.flops() / seconds / 1e9:.0f} GFLOP/s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="path of libattnd_kernels.so")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each shape")
    parser.add_argument("--filter", default="", help="only shapes whose text contains this")
    parser.add_argument("--cpu-time", action="store_true",
                        help="on one thread, count its processor time: for a machine that is shared")
    arguments = parser.parse_args()
    if arguments.cpu_time and arguments.threads != 1:
        parser.error("--cpu-time needs --threads 1")
    clock = time.thread_time if arguments.cpu_time else time.perf_counter

    torch.set_num_threads(arguments.threads)
    attention = Attention(arguments.library, ThreadPool(arguments.threads))
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), "
          f"{arguments.threads} threads, medians of {'processor' if arguments.cpu_time else 'wall'} "
          "time\n")
    print("| shape | attnd, ms | torch, ms | attnd | torch | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    ratios = []
    for shape in shapes():
        if arguments.filter not in str(shape):
            continue
        ours, theirs = compare(shape, attention, arguments.seconds, clock)
        ratios.append(theirs / ours)
        print(f"| {shape} | {ours * 1e3:.3f} | {theirs * 1e3:.3f} | {rate(shape, ours)} | "
              f"{rate(shape, theirs)} | {theirs / ours:.2f} |", flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\n{len(ratios)} shapes, ratio {min(ratios):.2f} to {max(ratios):.2f}, "
              f"geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
