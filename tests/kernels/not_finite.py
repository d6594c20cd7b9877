"""One row that is not finite in each of several heads, and how far it may reach into the gradients of attention."""

import numpy as np

HEADS = ("an infinite query", "a query of NaN", "an infinite key", "an infinite gradient", "a gradient of NaN")


def spoil(q, k, do):
    """Spoil an element of the middle row of each head, in place; the middle query sees the middle key."""
    query, key = q.shape[2] // 2, k.shape[2] // 2
    for each, head, value in ((q, 0, np.inf), (q, 1, np.nan), (k, 2, -np.inf), (do, 3, np.inf), (do, 4, np.nan)):
        each[0, head, key if each is k else query, 1] = value
    # With an infinite key only one query has a score of plus infinity, those before and behind it minus infinity.
    q[0, 2, :, 1] = abs(q[0, 2, :, 1]) + 0.1
    q[0, 2, query, 1] = -1.0


def check_where_finite(found, wanted, *, causal, rtol, atol):
    """Compare dq, dk and dv (NumPy) with those of the masked formula wherever the latter are finite."""
    for head, spoiled in enumerate(HEADS):
        # The last key is not seen by the spoiled row. In the product with dS an infinite element meets its 0.
        assert np.isfinite(wanted[1][0, head, -1, 2:]).all() == causal, spoiled
        for name, one, other in zip(("dq", "dk", "dv"), found, wanted, strict=True):
            one, other = (np.asarray(each[0, head], np.float64) for each in (one, other))
            where = np.isfinite(other)
            assert not np.isfinite(one).all(), (spoiled, name)
            np.testing.assert_allclose(one[where], other[where], rtol=rtol, atol=atol, err_msg=f"{spoiled}: {name}")
        if causal and "gradient" not in spoiled:  # in the formula a whole row of P is NaN, also behind the mask
            assert np.isfinite(np.asarray(found[2][0, head, -1], np.float64)).all(), spoiled
