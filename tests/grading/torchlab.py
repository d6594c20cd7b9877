"""A lab of four exercises with tensors, and answers as students give them, for benchmarks of graders."""

from tests.grading.smallclass import source_notebook

SETUP = "import math\n\nimport torch"
SOLUTIONS = {
    "softmax": "def softmax(x):\n"
               '    """Return the softmax of each row of ``x``; no element may overflow."""\n'
               "    e = torch.exp(x - x.amax(dim=-1, keepdim=True))\n"
               "    return e / e.sum(dim=-1, keepdim=True)\n",
    "layer_norm": "def layer_norm(x, weight, bias, eps=1e-5):\n"
                  '    """Return the layer norm of the last dimension."""\n'
                  "    mean = x.mean(dim=-1, keepdim=True)\n"
                  "    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)\n"
                  "    return (x - mean) * torch.rsqrt(variance + eps) * weight + bias\n",
    "attention": "def attention(q, k, v, causal=False):\n"
                 '    """Return softmax(q k^T / sqrt(d)) v, for tensors [heads, tokens, d]."""\n'
                 "    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])\n"
                 "    if causal:\n"
                 "        ones = torch.ones(scores.shape[-2:], dtype=torch.bool)\n"
                 "        scores = scores.masked_fill(~ones.tril(), -math.inf)\n"
                 "    return torch.softmax(scores, dim=-1) @ v\n",
    "fit": "def fit(x, y, steps, rate):\n"
           '    """Return the weights of a linear model, by gradient descent from zero on the mean squared error."""\n'
           "    weights = torch.zeros(x.shape[1], requires_grad=True)\n"
           "    for _ in range(steps):\n"
           "        loss = ((x @ weights - y) ** 2).mean()\n"
           "        (gradient,) = torch.autograd.grad(loss, weights)\n"
           "        weights = (weights - rate * gradient).detach().requires_grad_()\n"
           "    return weights.detach()\n",
}  # fmt: skip
CHECKS = {
    "softmax": (
        2,
        "x = torch.tensor([[0.0, math.log(3.0)]])\n"
        "torch.testing.assert_close(softmax(x), torch.tensor([[0.25, 0.75]]))\n",
        "x = torch.randn(64, 256) * 50\n"
        "torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1))\n"
        "assert torch.isfinite(softmax(torch.full((2, 3), 1e4))).all(), 'large numbers overflow'\n",
    ),
    "layer_norm": (
        3,
        "x = torch.tensor([[1.0, 3.0]])\n"
        "torch.testing.assert_close(layer_norm(x, torch.ones(2), torch.zeros(2)), torch.tensor([[-1.0, 1.0]]))\n",
        "x, w, b = torch.randn(32, 128) * 3 + 1, torch.randn(128), torch.randn(128)\n"
        "expected = torch.nn.functional.layer_norm(x, (128,), w, b)\n"
        "torch.testing.assert_close(layer_norm(x, w, b), expected, rtol=1e-4, atol=1e-5)\n",
    ),
    "attention": (
        3,
        "one = torch.ones(1, 2, 4)\ntorch.testing.assert_close(attention(one, one, one), one)\n",
        "for causal in (False, True):\n"
        "    q, k, v = (torch.randn(4, 64, 16) for _ in range(3))\n"
        "    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)\n"
        "    torch.testing.assert_close(attention(q, k, v, causal), expected, rtol=1e-4, atol=1e-5)\n",
    ),
    "fit": (
        2,
        "x = torch.eye(2)\n"
        "torch.testing.assert_close(fit(x, torch.tensor([1.0, 2.0]), 1, 0.5), torch.tensor([0.5, 1.0]))\n",
        "x, truth = torch.randn(200, 8), torch.randn(8)\n"
        "torch.testing.assert_close(fit(x, x @ truth, 300, 0.2), truth, rtol=1e-3, atol=1e-3)\n",
    ),
}
# What students also hand in: right in another way, slow, wrong, or not at all (None).
OTHERS = {
    "softmax": [
        "def softmax(x):\n    return torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True)\n",
        "def softmax(x):\n    return torch.exp(torch.log_softmax(x, dim=-1))\n",
        "def softmax(x):\n    return torch.stack([torch.softmax(row, dim=0) for row in x])\n",
        None,
    ],
    "layer_norm": [
        "def layer_norm(x, weight, bias, eps=1e-5):\n"
        "    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * weight + bias\n",
        "def layer_norm(x, weight, bias, eps=1e-5):\n"
        "    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, unbiased=False)\n"
        "    return (x - mean) / torch.sqrt(variance + eps) * weight + bias\n",
        None,
    ],
    "attention": [
        "def attention(q, k, v, causal=False):\n"
        "    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v\n",
        "def attention(q, k, v, causal=False):\n    return torch.softmax(q @ k.T, dim=-1) @ v\n",
        None,
    ],
    "fit": [
        "def fit(x, y, steps, rate):\n    return torch.linalg.lstsq(x, y[:, None]).solution[:, 0]\n",
        "def fit(x, y, steps, rate):\n"
        "    w = torch.zeros(x.shape[1])\n"
        "    for _ in range(steps):\n"
        "        w -= rate * 2 / len(y) * x.T @ (x @ w - y)\n"
        "    return w\n",
        None,
    ],
}


def notebook():
    """The instructor's notebook."""
    return source_notebook(SETUP, SOLUTIONS, CHECKS)


def answers(chance):
    """Answers of one student: three in five of them are the solutions."""
    return {name: chance.choice(others) for name, others in OTHERS.items() if chance.random() < 0.4}
