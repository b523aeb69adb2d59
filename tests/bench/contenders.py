"""The libraries beside attnd: PyTorch's attention backends and FlashAttention-3. Tensors are
[batch, heads, seqlen, dim] in any memory order; each function returns run(), which enqueues on
torch's current stream and returns the output."""

import importlib
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "FA2": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
# Of the wheel fa3-fwd on PyPI, and of a build of the FlashAttention repository's folder hopper.
FLASH_ATTENTION_3_MODULES = ("fa3_fwd_interface", "flash_attn_interface")


def torch_attention(backend, q, k, v, causal=False, bias=None):
    gqa = q.shape[1] != k.shape[1]

    def run():
        with sdpa_kernel(BACKENDS[backend]):
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, is_causal=causal, enable_gqa=gqa
            )

    return run


def _output(result):
    """Some versions return (out, lse), others out alone."""
    return result[0] if isinstance(result, tuple) else result


class FlashAttention3:
    def __init__(self, module):
        self._module = module

    def attention(self, q, k, v, causal):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))

        def run():
            return _output(self._module.flash_attn_func(q, k, v, causal=causal)).transpose(1, 2)

        return run

    def packed_attention(self, q, k, v, options):
        """options: attnd_kernels.Options with cu_seqlens."""
        q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
        lengths = (options.cu_seqlens_q, options.cu_seqlens_k)
        lengths += (options.max_seqlen_q, options.max_seqlen_k)

        def run():
            result = self._module.flash_attn_varlen_func(q, k, v, *lengths, causal=options.causal)
            return _output(result).transpose(0, 1)[None]

        return run


def _import_flash_attention_3(folder):
    if folder is not None:
        sys.path.insert(0, folder)
    reasons = []
    for name in FLASH_ATTENTION_3_MODULES:
        try:
            return importlib.import_module(name)
        except Exception as error:  # a library that does not fit fails in ways of its own
            reasons.append(f"{name}: {error}")
    raise ImportError("; ".join(reasons))


def load_flash_attention_3(folder):
    """FlashAttention3, tried out on a small problem, or None: then prints why."""
    try:
        library = FlashAttention3(_import_flash_attention_3(folder))
        q = torch.randn(1, 128, 2, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        library.attention(q, q, q, causal=True)()
        torch.cuda.synchronize()
        return library
    except Exception as error:
        print(f"FlashAttention-3 does not load, going on without: {type(error).__name__}: {error}")
        return None
