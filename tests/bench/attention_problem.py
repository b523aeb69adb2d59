"""Attention problems of the benchmarks: shape, mask, work, random inputs."""

import dataclasses

import torch

# Of the memory: [batch, seqlen, heads, dim] and [batch, heads, seqlen, dim].
ORDERS = ("bshd", "bhsd")


@dataclasses.dataclass(frozen=True)
class Problem:
    batch: int
    heads: int
    seqlen: int  # of k and v
    head_dim: int
    causal: bool = False
    dtype: str = "bfloat16"
    kv_heads: int | None = None  # None: heads
    head_dim_v: int | None = None  # None: head_dim
    seqlen_q: int | None = None  # None: seqlen
    window_left: int | None = None  # with causal only

    def __post_init__(self):
        for field, value in (
            ("kv_heads", self.heads),
            ("head_dim_v", self.head_dim),
            ("seqlen_q", self.seqlen),
        ):
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)

    @property
    def pairs(self):
        """(row, key) pairs of one head that count as work: for causal problems half of the square,
        as is customary; with a window exactly those that the mask lets through."""
        if self.window_left is not None:
            return triangle_pairs(self.seqlen, self.window_left)
        square = self.seqlen_q * self.seqlen
        return square / 2 if self.causal else square

    @property
    def flops(self):
        width = self.head_dim + self.head_dim_v
        return 2.0 * self.batch * self.heads * self.pairs * width

    def __str__(self):
        def ratio(first, second):
            return f"{first}" + (f"/{second}" if first != second else "")

        mask = "causal" if self.causal else "full"
        mask += f" window {self.window_left}" if self.window_left is not None else ""
        return (
            f"d {ratio(self.head_dim, self.head_dim_v):7} H {ratio(self.heads, self.kv_heads):4} "
            f"B {self.batch:2} N {ratio(self.seqlen_q, self.seqlen):6} {self.dtype:8} {mask}"
        )


def triangle_pairs(seqlen, window_left=None):
    """(row, key) pairs that causal attention sees exactly: row i the keys i - window_left .. i."""
    keys = seqlen if window_left is None else min(window_left + 1, seqlen)
    return keys * (keys + 1) // 2 + (seqlen - keys) * keys


def random_tensor(batch, heads, seqlen, dim, dtype, order):
    """Standard normal [batch, heads, seqlen, dim], its memory in the order given."""
    options = dict(device="cuda", dtype=dtype)
    if order == "bhsd":
        return torch.randn(batch, heads, seqlen, dim, **options)
    return torch.randn(batch, seqlen, heads, dim, **options).transpose(1, 2)


def make_inputs(problem, order):
    """q, k, v; the same for the same problem."""
    torch.manual_seed(problem.seqlen + problem.head_dim)
    p, dtype = problem, getattr(torch, problem.dtype)
    q = random_tensor(p.batch, p.heads, p.seqlen_q, p.head_dim, dtype, order)
    k = random_tensor(p.batch, p.kv_heads, p.seqlen, p.head_dim, dtype, order)
    v = random_tensor(p.batch, p.kv_heads, p.seqlen, p.head_dim_v, dtype, order)
    return q, k, v
