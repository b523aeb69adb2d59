"""The Python client against the real server, checked by the textbook computation in float64."""

import ml_dtypes
import numpy as np
import grpc
import pytest

import attnd


def attention64(q, k, v, *, scale=None, causal=False, mask=None, bias=None):
    """BSHD in, (out BSHD, lse [batch, heads, seqlen_q], probs) out; float64."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + np.asarray(bias, dtype=np.float64)
    allowed = np.ones(scores.shape, dtype=bool) if mask is None else np.broadcast_to(mask, scores.shape).copy()
    if causal:
        i, j = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None, :]
        allowed &= j <= i + k.shape[1] - q.shape[1]
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.where(allowed, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(axis=-1, keepdims=True)
    probs = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    with np.errstate(divide="ignore"):
        lse = np.where(total > 0, top + np.log(total), -np.inf)[..., 0]
    return np.einsum("bhij,bjhd->bihd", probs, v), lse, probs


def tensors(seed, batch=2, seqlen_q=33, seqlen_k=65, heads=4, kv_heads=2, dim=32, dim_v=None, dtype=np.float32):
    rng = np.random.default_rng(seed)
    make = lambda *shape: rng.standard_normal(shape).astype(dtype)
    return (make(batch, seqlen_q, heads, dim), make(batch, seqlen_k, kv_heads, dim),
            make(batch, seqlen_k, kv_heads, dim_v or dim))


TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3, np.dtype(ml_dtypes.bfloat16): 3e-2}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_out_lse_and_probs_agree_with_float64(client, dtype):
    q, k, v = tensors(1, dtype=dtype)
    result = client.attend(q, k, v, causal=True, return_lse=True, return_probs=True)
    out, lse, probs = attention64(q, k, v, causal=True)
    tolerance = TOLERANCE[np.dtype(dtype)]
    assert result.out.dtype == np.dtype(dtype)
    np.testing.assert_allclose(result.out.astype(np.float64), out, atol=tolerance)
    np.testing.assert_allclose(result.lse, lse, atol=tolerance)
    np.testing.assert_allclose(result.probs, probs, atol=tolerance)
    assert result.kernel and result.timings.total > 0


def test_mask_and_bias_broadcast_from_missing_dimensions(client):
    q, k, v = tensors(2)
    rng = np.random.default_rng(3)
    mask, bias = rng.random((33, 65)) > 0.3, rng.standard_normal((4, 33, 65)).astype(np.float32)
    mask[5] = False  # one row that attends to nothing
    result = client.attend(q, k, v, mask=mask, bias=bias, return_lse=True)
    out, lse, _ = attention64(q, k, v, mask=mask, bias=bias)
    np.testing.assert_allclose(result.out, out, atol=2e-5)
    np.testing.assert_allclose(result.lse, lse, atol=2e-5)
    assert np.all(result.out[:, 5] == 0) and np.all(np.isneginf(result.lse[:, :, 5]))


def test_bhsd_gives_the_bits_of_bshd(client):
    q, k, v = tensors(4, dim_v=16)
    bshd = client.attend(q, k, v).out
    swap = lambda x: x.transpose(0, 2, 1, 3)
    bhsd = client.attend(swap(q), swap(k), swap(v), layout="bhsd").out
    np.testing.assert_array_equal(swap(bhsd), bshd)


def test_a_packed_sequence_gives_the_bits_it_gives_alone(client):
    parts = [tensors(seed, batch=1, seqlen_q=n, seqlen_k=n, dtype=np.float16) for seed, n in ((5, 7), (6, 0), (7, 130))]
    packed = [np.concatenate([part[i][0] for part in parts]) for i in range(3)]
    result = client.attend(*packed, cu_seqlens_q=[0, 7, 7, 137], cu_seqlens_k=[0, 7, 7, 137], causal=True, return_lse=True)
    assert result.lse.shape == (4, 137)
    for (q, k, v), begin, end in ((parts[0], 0, 7), (parts[2], 7, 137)):
        alone = client.attend(q, k, v, causal=True, return_lse=True)
        np.testing.assert_array_equal(result.out[begin:end], alone.out[0])
        np.testing.assert_array_equal(result.lse[:, begin:end], alone.lse[0])


def test_partial_results_merge_to_the_whole(client):
    q, k, v = tensors(8, heads=2, kv_heads=2)
    whole = client.attend(q, k, v, return_lse=True)
    parts = [client.attend(q, k[:, cut], v[:, cut], return_partial=True) for cut in (slice(0, 40), slice(40, 65))]
    merged = client.merge([p.out for p in parts], [p.lse.transpose(0, 2, 1) for p in parts])
    np.testing.assert_allclose(merged.out, whole.out, atol=2e-6)
    np.testing.assert_allclose(merged.lse.transpose(0, 2, 1), whole.lse, atol=2e-6)
    assert 0 < merged.timings.compute < merged.timings.total


@pytest.mark.parametrize("lse_shape", [(2, 4, 33), (2 * 33 * 4,), (1, 33, 4)])
def test_an_lse_in_another_layout_than_out_is_not_merged(client, lse_shape):
    out = np.ones((2, 33, 4, 32), np.float32)
    with pytest.raises(ValueError, match="accepted: the shape of outs without its last dimension"):
        client.merge([out, out], [np.ones(lse_shape, np.float32)] * 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_mask_of_integers_0_and_1_is_that_of_truth_values(client, dtype):
    q, k, v = tensors(15)
    mask = np.tri(33, 65, dtype=bool)
    as_integers = client.attend(q, k, v, mask=mask.astype(dtype)).out
    np.testing.assert_array_equal(as_integers, client.attend(q, k, v, mask=mask).out)


@pytest.mark.parametrize("mask", [np.where(np.tri(33, 65), 0.0, -np.inf), np.tri(33, 65, dtype=np.float32),
                                  2 * np.tri(33, 65, dtype=np.int32), -np.tri(33, 65, dtype=np.int8)])
def test_a_mask_of_other_numbers_is_refused_and_bias_named(client, mask):
    with pytest.raises(ValueError, match=f"mask: numbers of {mask.dtype}; accepted: bool, .* `bias`"):
        client.attend(*tensors(16), mask=mask)


@pytest.mark.parametrize("name, value", [("lengths_q", [1.5, 2]), ("lengths_k", np.ones(2)), ("lengths_k", [True, False]),
                                         ("window_left", 2.9), ("window_right", np.float32(0))])
def test_integer_arguments_take_only_integers(client, name, value):
    with pytest.raises(ValueError, match=f"{name}: .*; accepted: "):
        client.attend(*tensors(17), causal=True, **{name: value})


@pytest.mark.parametrize("name", ["cu_seqlens_q", "cu_seqlens_k"])
def test_fractions_of_a_token_in_cu_seqlens_are_refused(client, name):
    q = np.ones((4, 2, 16), np.float32)
    cu_seqlens = {"cu_seqlens_q": [0, 2, 4], "cu_seqlens_k": [0, 2, 4], name: [0, 2.9, 4]}
    with pytest.raises(ValueError, match=f"{name}: dtype float64, 1 dimensions; accepted: integers in one dimension"):
        client.attend(q, q, q, **cu_seqlens)


def test_integers_of_numpy_are_taken_as_those_of_python(client):
    q, k, v = tensors(18)
    of_numpy = client.attend(q, k, v, lengths_k=np.array([3, 65], np.uint16), window_left=np.int32(7)).out
    np.testing.assert_array_equal(of_numpy, client.attend(q, k, v, lengths_k=(3, 65), window_left=7).out)


def test_a_problem_over_the_message_limit_goes_by_stream_and_gives_the_same_bits(client):
    q, k, v = tensors(9, batch=3, seqlen_q=1100, seqlen_k=1100, heads=8, kv_heads=8, dim=64)
    assert q.nbytes * 3 > client.server_info().max_message_bytes
    streamed = client.attend(q, k, v, causal=True)
    for b in range(3):
        alone = client.attend(q[b:b + 1], k[b:b + 1], v[b:b + 1], causal=True)
        np.testing.assert_array_equal(streamed.out[b], alone.out[0])


def test_a_result_over_the_message_limit_goes_by_stream(client):
    q, k, v = tensors(13, batch=1, seqlen_q=9000, seqlen_k=1, heads=1, kv_heads=1, dim=8, dim_v=256)
    assert q.nbytes + k.nbytes + v.nbytes < client.server_info().max_message_bytes < 9000 * 256 * 4
    np.testing.assert_allclose(client.attend(q, k, v).out, np.broadcast_to(v, (1, 9000, 1, 256)), rtol=1e-6)


@pytest.mark.parametrize("seqlen", [100, 124, 128, 1000])  # q, k and v take 64 KiB from 128 on
def test_the_least_message_limit_is_kept(server_of_small_messages, seqlen):
    q, k, v = tensors(14, batch=1, seqlen_q=seqlen, seqlen_k=seqlen, heads=1, kv_heads=1, dim=40, dim_v=48)
    with attnd.Client(server_of_small_messages) as client:
        np.testing.assert_allclose(client.attend(q, k, v).out, attention64(q, k, v)[0], atol=2e-5)


def test_diagnostics_count_what_was_planted(client):
    q, k, v = tensors(10)
    q[0, 3, 1, 2], v[1, 4, 0, 5] = np.nan, np.inf
    d = client.attend(q, k, v, mask=np.arange(33)[:, None] > np.zeros(65), return_diagnostics=True).diagnostics
    assert (d.nonfinite_q, d.nonfinite_k, d.nonfinite_v) == (1, 0, 1)
    assert d.rows_fully_masked == 2 * 4  # row 0 of every sequence and head


@pytest.mark.parametrize("k_shape, v_shape", [((12, 2, 8), (6, 2, 16)), ((6, 2, 16), (12, 1, 16)), ((6, 2, 16), (12, 2, 8))])
def test_packed_arrays_of_as_many_bytes_in_another_shape_are_refused(client, k_shape, v_shape):
    q, k, v = np.ones((6, 2, 16), np.float32), np.ones(k_shape, np.float32), np.ones(v_shape, np.float32)
    with pytest.raises(ValueError, match="accepted: q and k of one head_dim, k and v of one shape but for head_dim"):
        client.attend(q, k, v, cu_seqlens_q=[0, 6], cu_seqlens_k=[0, 6])


def test_an_error_carries_the_code_and_names_the_field(client):
    q, k, v = tensors(11)
    with pytest.raises(attnd.AttndError) as caught:
        client.attend(q, k, v, softmax_scale=float("nan"))
    assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
    assert "softmax_scale" in caught.value.message


def test_arrays_that_cannot_be_described_are_refused_before_the_call(client):
    q, k, v = tensors(12)
    with pytest.raises(ValueError, match="k: dtype float16, q has float32"):
        client.attend(q, k.astype(np.float16), v)
    with pytest.raises(ValueError, match="q: dtype float64; accepted: float32, float16, bfloat16"):
        client.attend(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64))
    with pytest.raises(ValueError, match="q: 3 dimensions"):
        client.attend(q[0], k, v)
    with pytest.raises(ValueError, match="accepted: q and k of one head_dim and batch, k and v of one shape but for head_dim"):
        client.attend(q, k[:1], v[:1])
    with pytest.raises(ValueError, match="layout: 'sbhd'; accepted: 'bshd', 'bhsd'"):
        client.attend(q, k, v, layout="sbhd")


def test_an_expired_deadline_is_reported_as_one(client):
    # The float64 reference takes far longer than this for a problem of this size.
    q, k, v = tensors(13, seqlen_q=1000, seqlen_k=1000, heads=8, dim=64)
    with pytest.raises(attnd.AttndError) as caught:
        client.attend(q, k, v, algorithm="reference", timeout=0.01)
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
