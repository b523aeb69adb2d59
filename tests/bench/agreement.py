"""Whether outputs agree: with each other, and with attention computed in float64 for a few rows."""

import torch

TOLERANCE = 2e-2


def difference(out, expected):
    """(largest absolute difference, whether they agree). They do if no value is off by more than
    TOLERANCE, or of values above 1 by that share (a bfloat16 step at 4 is 3e-2), and the norm of
    the differences is below that share of the norm: attention over many keys has small values
    only. NaN never agrees."""
    gap = (out.to(expected.dtype) - expected).abs()
    each = (gap <= TOLERANCE * expected.abs().clamp(min=1)).all()
    together = gap.norm() <= TOLERANCE * expected.norm()
    return gap.max().item(), bool(each & together)


def sampled_rows(seqlen):
    """Rows at both ends, about the middle, and one in each 16th of a sequence."""
    middle = seqlen // 2
    rows = {0, 1, 127, 128, middle - 1, middle, seqlen - 2, seqlen - 1}
    rows |= {seqlen * part // 16 + part for part in range(16)}
    return sorted(row for row in rows if 0 <= row < seqlen)


def _masked(scores, options, position, keys):
    if options.causal:
        scores = scores.masked_fill(keys > position, -torch.inf)
    if options.window_left is not None:
        scores = scores.masked_fill(keys < position - options.window_left, -torch.inf)
    if options.window_right is not None:
        scores = scores.masked_fill(keys > position + options.window_right, -torch.inf)
    return scores


def _of_head(array, batch, head, rows):
    """Rows of one head of a [batch, heads, rows, cols] array whose sizes may be 1."""
    size = array.shape
    array = array[batch if size[0] > 1 else 0, head if size[1] > 1 else 0]
    return array[rows] if size[2] > 1 else array


def _scores(q, k, options, batch, head, rows):
    """Scores of rows of one head, in the order of attnd_attention_params; q is those rows alone."""
    scale = options.softmax_scale if options.softmax_scale is not None else q.shape[1] ** -0.5
    scores = scale * (q.double() @ k.double().T)
    keys = torch.arange(k.shape[0], device=k.device)
    position = rows[:, None]
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if options.bias is not None:
        scores = scores + _of_head(options.bias, batch, head, rows).double()
    if options.alibi_slopes is not None:
        slopes = options.alibi_slopes
        slope = (slopes[batch] if slopes.dim() == 2 else slopes)[head]
        scores = scores - slope.double() * (position - keys).abs()
    if options.mask is not None:
        scores = scores.masked_fill(~_of_head(options.mask, batch, head, rows), -torch.inf)
    return _masked(scores, options, position, keys)


def _softmax(scores, sink):
    """Rows without a key give zeros; a sink takes part in the sum as a key without a value."""
    if sink is not None:
        column = sink.double().expand(scores.shape[0], 1)
        return torch.softmax(torch.cat([scores, column], dim=1), dim=1)[:, :-1]
    return torch.softmax(scores, dim=1).nan_to_num(0.0)


def exact_difference(out, q, k, v, options, batch=0, head=0, first=0, count=None):
    """Like difference(), between sampled rows of out and float64, for one head. Tensors are
    [batch, heads, seqlen, dim]; of packed ones, first and count name the sequence. Rows and keys
    are equally many."""
    last = q.shape[2] if count is None else first + count
    rows = torch.tensor(sampled_rows(last - first), device=q.device)
    kv_head = head * k.shape[1] // q.shape[1]
    q, out = (t[batch, head, first:last][rows] for t in (q, out))
    k, v = (t[batch, kv_head, first:last] for t in (k, v))
    sink = None if options.sinks is None else options.sinks[head]
    weights = _softmax(_scores(q, k, options, batch, head, rows), sink)
    return difference(out, weights @ v.double())
