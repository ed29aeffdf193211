"""Wrong answers to the exercises of `minitf learn` beside the mistakes that these know: the solution with one replacement,
and a part of the message.

A list of replacements stands for an answer that differs in several places.
"""

# ruff: noqa: E501 (an answer to a line)
# fmt: off
WRONG_ANSWERS = {
    "tape": [
        ("    return g", "    return", "is `return` missing?"),
        ("for output, inputs", "while True:\n        g = g\n    for output, inputs", "is there an infinite loop?"),
    ],
    "topological_order": [
        ("        elif node not in seen:", "        elif node not in finished or True:", "a node appears twice"),
        ("finished[::-1]", "finished", "the output itself is not the first"),
        ("    return finished[::-1]", "    return sorted(finished, key=lambda n: len(n.inputs), reverse=True)", "visits"),
        ("    finished = []", "    def depth(n):\n        return 1 + max(map(depth, n.inputs), default=0)\n    depth(output)\n"
         "    finished = []", "Python's limit of recursion"),
        ("return finished[::-1]", "return finished[::-1][:-1]", "every node that the output depends on is needed"),
    ],
    "broadcasting": [
        ("g = g.sum(axis=tuple(range(lead)))", "g = g.mean(axis=tuple(range(lead)))", "is a sum, here it is a mean"),
        ("if size == 1", "if size == 7", "the sum is missing"),
    ],
    "accumulation": [
        ("    elif key in owned:\n        sums[key] += g\n", "", "the third gradient makes another array"),
        ("elif key in owned:", "elif key not in owned:", "changed in place"),
        ("        sums[key] = g\n", "        sums[key] = g.copy()\n", "the first gradient is copied"),
        ("sums[key] = sums[key] + g", "sums[key] = g", "the term `sums[key]` is missing"),
        ("sums[key] = sums[key] + g", "sums[key] += g", "changed in place"),
    ],
    "freeing": [
        ("            node.saved, node.freed = (), True", "            node.freed = True", "nothing is freed"),
        ("        g = node.backward(g)\n        if not retain_graph:\n            node.saved, node.freed = (), True\n",
         "        if not retain_graph:\n            node.saved, node.freed = (), True\n        g = node.backward(g)\n",
         "freed before its backward pass"),
        ("if not retain_graph:", "if True:", "retain_graph=True keeps the saved arrays"),
        ("        if not retain_graph:\n            node.saved, node.freed = (), True\n",
         "    for node in nodes if not retain_graph else ():\n        node.saved, node.freed = (), True\n",
         "expected 3, 2, 1: free each right after its own backward pass"),
        ("if node.freed:", "if False:", "raise a RuntimeError"),
        ("node.saved, node.freed = (), True", "node.saved = ()", "node.freed is not set"),
    ],
    "central_differences": [
        ("step = np.zeros_like(x)\n        step[place] = eps", "step = x\n        step[place] += eps", "changes x in place"),
        ("        step[place] = eps", "        step[place] = 1e-5; eps = 1e-5", "eps is not used"),
    ],
    "matmul": [
        ("g @ b.swapaxes(-1, -2)", "(b @ g.swapaxes(-1, -2)).reshape(a.shape)", "axes 0 and 1 of the gradient are exchanged"),
        ("a.swapaxes(-1, -2) @ g\n", "a.T @ g\n", ".swapaxes(-1, -2) exchanges the last two"),
        ("    if b.ndim < a.ndim:  # one matrix for the whole batch\n"
         "        g_b = g_b.sum(axis=tuple(range(a.ndim - b.ndim)))\n", "", "b is used in all of them"),
        ("g_b.sum(", "g_b.mean(", "every value is 0.5 times the right one"),
        ("return g_a, g_b", "return g_b, g_a", "expected that of a"),
        ("return g_a, g_b", "return g_a", "1 gradient(s) are returned, expected 2: of a, b"),
    ],
    "softmax": [
        ("np.exp(x - x.max(axis=axis, keepdims=True))", "np.exp(x)", "exp overflows"),
        ("np.exp(x - x.max(axis=axis, keepdims=True))", "np.exp(x - x.max())", "use that of the row"),
        ("(g - (g * y).sum(axis=axis, keepdims=True))", "g", "- Σ g · y of a softmax"),
        ("(g * y).sum(axis=axis,", "(g * y).mean(axis=axis,", "must add up to 0 along it, and does not"),
        ("(g * y).sum(axis=axis,", "(g * y).sum(axis=-1,", "must add up to 0 along it, and does not"),
    ],
    "layer_norm": [
        ("g_x = (g_hat - g_hat.mean(axis=-1, keepdims=True) - x_hat * along_x_hat) / s", "g_x = g_hat / s",
         "treated as constants"),
        (" - x_hat * along_x_hat", "", "is the term - x̂ · mean(g · x̂)"),
        (" - g_hat.mean(axis=-1, keepdims=True)", "", "- mean(g) of a normalisation missing"),
        ("(g * x_hat).sum(axis=rows)", "(g * x_hat).mean(axis=rows)", "wrong gradient of weight"),
        ("g.sum(axis=rows)", "g.sum(axis=0)", "the gradient of bias has shape"),
    ],
    "cross_entropy": [
        ("    return -chosen[counted].sum() / max(counted.sum(), 1)", "    return -chosen[counted].sum() / len(targets)",
         "the mean is over all rows, padding included"),
        ("    g_logits[~counted] = 0\n", "", "the rows of padding have a gradient"),
        ("    g_logits[np.arange(len(targets)), targets] -= 1\n", "", "is 1 subtracted at the target?"),
        ("(g / max(counted.sum(), 1))", "(1 / max(counted.sum(), 1))", "does not depend on the incoming gradient"),
        ("g_logits * (g / max(counted.sum(), 1))", "g_logits * g", "`g` is not divided by"),
        ("    counted = targets != pad\n    g_logits", "    counted = targets != 0\n    g_logits", "is `pad` used?"),
    ],
    "embedding": [
        ("np.add.at(g_weight, ids, g)", "g_weight[ids] += g", "values are overwritten, not added"),
        ("    np.add.at(g_weight, ids, g)", "    for i, row in zip(ids, g):\n        g_weight[i] = row", "overwritten"),
    ],
    "attention": [
        ("keepdims=True)) / math.sqrt(q.shape[-1])\n    return g", "keepdims=True))\n    return g", "a factor 1/√5 is missing"),
        ("return g_scores @ k, g_scores.swapaxes(-1, -2) @ q, g_v", "return g_scores @ k, g_v, g_scores.swapaxes(-1, -2) @ q",
         "expected that of k"),
        ("g_scores.swapaxes(-1, -2) @ q, g_v", "g_scores.swapaxes(-1, -2) @ k[..., :2, :], g_v", "wrong gradient of k"),
        ("g_v = p.swapaxes(-1, -2) @ g", "g_v = (p / p.sum(-2, keepdims=True)).swapaxes(-1, -2) @ g", "wrong gradient of v"),
    ],
    "linear_cross_entropy": [
        (".sum() / n\n        p /= total", ".sum() / len(logits)\n        p /= total", "divided by the rows of the block"),
        (("range(0, n, block)", "range(0, n, n)"), ("start + block)", "start + n)"), "compute one block of rows at a time"),
    ],
    "masks": [
        ("np.tri(length, dtype=bool)", "np.tri(length, k=1, dtype=bool)", "a position sees the next one"),
        ("np.tri(length, dtype=bool)", "np.tri(length, k=-1, dtype=bool)", "a position does not see itself"),
        ("np.tri(length, dtype=bool)", "np.tri(length, dtype=bool).T", "the triangle is the upper one"),
    ],
    "positions": [
        ("np.arange(length)[:, None] /", "np.arange(1, length + 1)[:, None] /", "positions start at 1"),
        (("np.sin(angle)", "np.cos(angle) "), ("= np.cos(angle)\n", "= np.sin(angle)\n"), "sines and cosines are exchanged"),
        ("np.arange(length)[:, None] / 10000", "np.arange(length)[:, None] * 10000", "which is a divisor"),
    ],
    "residual_order": [
        ("return x + dropout(sublayer(norm(x)))", "x = norm(x)\n        return x + dropout(sublayer(x))",
         "the direct path is normalised"),
        ("if norm_first:", "if not norm_first:", "pre-norm: the paper normalises the sum"),
    ],
    "label_smoothing": [
        ("np.full((n, classes), eps / classes)\n    q[np.arange(n), targets] += 1 - eps",
         "np.full((n, classes), eps / (classes - 1))\n    q[np.arange(n), targets] = 1 - eps", "over the V - 1 other classes"),
        ("q[np.arange(n), targets] += 1 - eps", "q[np.arange(n), targets] = 1 - eps", "lacks its share eps / V"),
        ("np.exp(log_softmax(logits)) - eps / classes", "np.exp(log_softmax(logits))", "the term - `eps / classes` is missing"),
        (("np.exp(log_softmax(logits)) - eps / classes", "np.exp(log_softmax(logits))"), ("-= 1 - eps", "-= 1"),
         "the smoothing is forgotten in the gradient"),
        ("+= 1 - eps", "+= 1", "the term - `eps` is missing"),
    ],
    "adam": [
        ("(1 - beta2) * g**2", "(1 - beta2) * abs(g)", "the absolute value stands for"),
        ("    m *= beta1\n    m += (1 - beta1) * g\n", "    m = beta1 * m + (1 - beta1) * g\n", "update them in place"),
        ("    parameter -= rate", "    parameter = parameter - rate", "nothing has changed"),
        ("eps=1e-9):", "eps=1e-9):\n    beta1 = 0.9", "0.9 is its default"),
    ],
    "warm_up": [
        ("* min(step", "* max(step", "max stands where min is meant"),
        ("min(step**-0.5, step * warmup**-1.5)", "min(warmup**-0.5, step * warmup**-1.5)", "fall with 1/√step"),
        ("min(step**-0.5,", "min((step + 1)**-0.5, 1 / warmup**1.5 +", "the rate of the next step"),
    ],
    "checkpoint_average": [
        (".astype(first.dtype)", "", "float64"),
        ("        total = sum(checkpoint[name].astype(np.float64) for checkpoint in checkpoints)\n",
         "        total = first\n        for checkpoint in checkpoints[1:]:\n            total += checkpoint[name]\n",
         "a checkpoint is changed"),
        ("        total = sum(checkpoint[name].astype(np.float64) for checkpoint in checkpoints)\n"
         "        result[name] = (total / len(checkpoints)).astype(first.dtype)\n",
         "        result[name] = first\n        for checkpoint in checkpoints[1:]:\n"
         "            result[name] = (result[name] + checkpoint[name]) / 2\n", "the average of averages"),
    ],
    "key_value_cache": [
        ("    p = np.exp(", "    cache['k'], cache['v'] = cache['k'][:, -1:], cache['v'][:, -1:]\n    scores = scores[:, -1:]\n"
         "    p = np.exp(", "only the newest position is seen"),
        ('for name in ("k", "v"):', 'for name in ("k",):', "the values keep their places"),
    ],
    "beam_search": [
        ("total / ((5 + length) / 6) ** alpha", "total", "without the length penalty"),
        ("((5 + length) / 6) ** alpha))", "((4 + length) / 6) ** alpha))", "your score leaves EOS out of the length"),
        ("candidates[: 2 * beam]", "candidates[:beam]", "the beam shrinks as hypotheses finish"),
        ("candidates[: 2 * beam]", "candidates", "finishes that is not among the best 2 · beam"),
        ("candidates[: 2 * beam]", "candidates[: 3 * beam]", "finishes that is not among the best 2 · beam"),
        ("elif len(alive) < beam:", "else:", "the beam is 2"),
        ("    return max(", "        if finished:\n            break\n    return max(", "the first hypothesis that ends wins"),
        ("            elif len(alive) < beam:", "            if len(alive) < beam:", "a hypothesis that ended with EOS is extended"),
        ("tokens[:-1], total /", "tokens, total /", "return them without it"),
    ],
    "gradient_accumulation": [
        ("total = total + count * g", "total = count * g", "total is overwritten"),
        ("total / max(tokens, 1)", "total / tokens", "0, not NaN"),
        ("        total = total + count * g\n        tokens += count\n", "        if tokens == 0:\n            total = g\n"
         "            total *= count\n        else:\n            total += count * g\n        tokens += count\n", "uses it again"),
    ],
    "all_reduce": [
        (("a.copy()", "a"), ("chunks[target][number] = chunks[target][number] + received[r]",
          "chunks[target][number] += received[r]"), "the arrays given are changed"),
        ("    for step in range(ranks - 1):\n        received = [send(r, chunks[r][(r + 1 - step) % ranks]) for r in range(ranks)]\n"
         "        for r in range(ranks):\n            chunks[(r + 1) % ranks][(r + 1 - step) % ranks] = received[r]\n", "",
         "the sum in some chunks only"),
        ("    ranks = len(arrays)\n", "    ranks = len(arrays)\n    total = [a.copy() for a in arrays]\n    moving = list(arrays)\n"
         "    for _ in range(ranks - 1):\n        got = [send(r, moving[r]) for r in range(ranks)]\n"
         "        moving = [got[r - 1] for r in range(ranks)]\n        total = [t + m for t, m in zip(total, moving)]\n"
         "    return total\n", "the ranks have sums that differ in the last bits"),
        ("    ranks = len(arrays)\n", "    ranks = len(arrays)\n    return [sum(arrays) for _ in arrays]\n", "a rank sends nothing"),
        ("    ranks = len(arrays)\n", "    ranks = len(arrays)\n    total = arrays[0]\n    for r in range(1, ranks):\n"
         "        total = send(r - 1, total) + arrays[r]\n    for r in range(ranks):\n        total = send(r, total)\n"
         "    return [total.copy() for _ in arrays]\n", "send chunks, not whole arrays"),
        ("    return [np.concatenate", "    chunks = [[c / ranks for c in each] for each in chunks]\n    return [np.concatenate",
         "a mean where a sum is meant"),
    ],
    "hessian_product": [
        ("np.exp(logits - logits.max(axis=-1, keepdims=True))", "np.exp(logits)", "exp overflows"),
        ("return p * (v - (p * v).sum(axis=-1, keepdims=True))",
         "return np.stack([(np.diag(row) - np.outer(row, row)) @ each for row, each in zip(p, v)])", "H itself is computed"),
        ("return p * (v - (p * v).sum(axis=-1, keepdims=True))", "return p * (1 - p) * v", "the sum is missing: `p * v` stands for"),
        ("return p *", "p *", "H v is None: is `return` missing?"),
    ],
}
