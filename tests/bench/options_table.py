"""What options cost: the time of attnd's fused kernel with each of them over its time without, at
both paces of side_by_side: options cost power, too, or save it."""

import math

import torch

import agreement
from attention_problem import Problem, make_inputs, triangle_pairs
from attnd_kernels import Options
from contenders import torch_attention
from measurement import Contender, measure
from side_by_side import BURSTS, SUSTAINED

PROBLEMS = (Problem(2, 16, 8192, 128, causal=True), Problem(8, 16, 2048, 128))
WINDOWED = Problem(1, 16, 16384, 128, causal=True, window_left=1024)
BLOCK = 128  # of the mask that is a chequerboard of visible and hidden blocks; also rows and keys of
             # attnd's own tiles at this width
PLAIN = "attnd"


def chequerboard(seqlen):
    block = torch.arange(seqlen, device="cuda") // BLOCK
    return ((block[:, None] + block) % 2 == 0)[None, None]


def documents(seqlen, count):
    """Each position sees those of its own document."""
    document = torch.arange(seqlen, device="cuda") * count // seqlen
    return (document[:, None] == document)[None, None]


def padding(batch, seqlen):
    """The keys of sequence b end at an even share of seqlen between a quarter and the whole."""
    shares = torch.linspace(0.25, 1.0, batch, device="cuda")
    ends = (shares * seqlen).long()
    return (torch.arange(seqlen, device="cuda") < ends[:, None])[:, None, None]


def variants_of(problem):
    """name -> Options. A mask serves all heads, a bias all sequences, a sink weighs about as much
    as all keys. attnd mask hides nothing."""
    causal, heads, seqlen = problem.causal, problem.heads, problem.seqlen
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda") / heads)
    all_true = torch.ones(1, 1, seqlen, seqlen, device="cuda", dtype=torch.bool)
    bias = torch.randn(1, heads, seqlen, seqlen, device="cuda")
    sinks = math.log(seqlen) + torch.randn(heads, device="cuda")
    return {
        PLAIN: Options(causal=causal),
        "attnd softcap": Options(causal=causal, softcap=50.0),
        "attnd ALiBi": Options(causal=causal, alibi_slopes=slopes.float()),
        "attnd sinks": Options(causal=causal, sinks=sinks),
        "attnd mask": Options(causal=causal, mask=all_true),
        "attnd blocks": Options(causal=causal, mask=chequerboard(seqlen)),
        "attnd documents": Options(causal=causal, mask=documents(seqlen, 8)),
        "attnd padding": Options(causal=causal, mask=padding(problem.batch, seqlen)),
        "attnd bias16": Options(causal=causal, bias=bias.to(getattr(torch, problem.dtype))),
        "attnd bias32": Options(causal=causal, bias=bias),
    }


def _contender(library, tensors, options, problem):
    def exact(out):
        place = (problem.batch - 1, problem.heads - 1)
        return agreement.exact_difference(out, *tensors, options, *place)

    return Contender(lambda: library.prepare(*tensors, options), problem.flops, exact=exact)


def option_contenders(problem, variants, order, library):
    """cuDNN with a bias is a yardstick where torch takes one, that is without causal."""
    tensors = make_inputs(problem, order)
    contenders = {name: _contender(library, tensors, options, problem)
                  for name, options in variants.items()}
    contenders["cuDNN"] = Contender(
        lambda: torch_attention("cuDNN", *tensors, problem.causal), problem.flops, same_as=PLAIN)
    if not problem.causal:
        bias = variants["attnd bias16"].bias
        contenders["cuDNN bias16"] = Contender(
            lambda: torch_attention("cuDNN", *tensors, bias=bias), problem.flops,
            same_as="attnd bias16")
    return contenders


def array_gbps(problem, options, ms):
    """GB/s of the mask or bias, counting each element once for every sequence, and head if it has
    heads, that sees it, though blocks that a mask hides or shows whole are read once for all; None
    without one, or one for all queries."""
    array = options.mask if options.mask is not None else options.bias
    if array is None or array.shape[2] == 1:
        return None
    pairs = triangle_pairs(problem.seqlen) if problem.causal else problem.pairs
    return problem.batch * array.shape[1] * pairs * array.element_size() / ms / 1e6


def _add_variant_rows(table, problem, variants, row, report, order):
    """One printed line for each contender; figures of all in one row of the report."""
    costs, rates, lines = {}, {}, []
    for name, result in row.timed.items():
        plain = row.timed.get("cuDNN" if name.startswith("cuDNN") else PLAIN)
        costs[name] = result.ms / plain.ms if plain is not None else None
        rates[name] = array_gbps(problem, variants[name], result.ms) if name in variants else None
        cost = f"{costs[name]:5.3f} of plain" if costs[name] is not None else "no plain figure"
        rate = f"  {rates[name]:6.0f} GB/s of the array" if rates[name] is not None else ""
        lines.append(f"  {name:15} {result.ms:7.4f} ms  {cost}{rate}")
    report.add(table, problem, row, "", order=order, cost=costs, array_gbps=rates)
    print(*lines, sep="\n")


def visible_tiles(problem):
    """Of one head of a causal problem: tiles of BLOCK x BLOCK in which any row sees any key."""
    left = problem.window_left if problem.window_left is not None else problem.seqlen
    rows = range(0, problem.seqlen, BLOCK)
    return sum(row // BLOCK - max(row - left, 0) // BLOCK + 1 for row in rows)


def _window(table, order, library, report, pace):
    """Time over the time that the visible pairs, and the tiles they lie in, would take at the speed
    of the whole triangle."""
    problem = WINDOWED
    tensors = make_inputs(problem, order)
    whole = Problem(problem.batch, problem.heads, problem.seqlen, problem.head_dim, causal=True)
    windowed = Options(causal=True, window_left=problem.window_left)
    row = measure({
        PLAIN: _contender(library, tensors, Options(causal=True), whole),
        "attnd window": _contender(library, tensors, windowed, problem),
    }, pace)
    visible = problem.pairs / triangle_pairs(problem.seqlen)
    tiles = visible_tiles(problem) / visible_tiles(whole)
    excess = tile_excess = None
    text = "  ".join(f"{name} {result.tflops:6.1f} TFLOP/s" for name, result in row.timed.items())
    if len(row.timed) == 2:
        cost = row.timed["attnd window"].ms / row.timed[PLAIN].ms
        excess, tile_excess = cost / visible, cost / tiles
        text += (f"  visible pairs 1/{1 / visible:.2f}, tiles 1/{1 / tiles:.2f}"
                 f"  time over their share {excess:5.3f}, {tile_excess:5.3f}")
    report.add(table, problem, row, text, order=order, visible=visible, excess=excess,
               tiles=tiles, tile_excess=tile_excess)


def _options(table, order, library, report, pace):
    print(f"\n{table}, memory order {order}: time over the time without")
    for problem in PROBLEMS:
        variants = variants_of(problem)
        row = measure(option_contenders(problem, variants, order, library), pace)
        _add_variant_rows(table, problem, variants, row, report, order)
    _window(table, order, library, report, pace)


def options(order, library, fa3, report):
    del fa3  # built without options
    _options("options", order, library, report, BURSTS)
    _options("options sustained", order, library, report, SUSTAINED)
