"""Classic mistakes of each step: what the verdict says of them, and the text of the reference answer that they change."""

# ruff: noqa: E501 (a mistake to a line)
# fmt: off
MISTAKES = {
    "tensor": [
        ("data is a copy", "np.asarray(data)", "np.array(data)"),
        ("data is a list", "np.asarray(data)", "data"),
        ("by default it requires none", "requires_grad=False", "requires_grad=True"),
        ("grad begins as something", "self.grad = None", "self.grad = np.zeros_like(self.data)"),
        ("ask x.data each time", "self.data = np.asarray(data)\n", "self.data = np.asarray(data)\n        self.first = self.data.shape\n", "return self.data.shape", "return self.first"),
        ("item() returns an array", "self.data.item()", "self.data"),
        ("it is to be a property", "    @property\n    def shape", "    def shape"),
    ],
    "apply": [
        ("the result is an array", "    return output\n", "    return output.data\n"),
        ("is `return` missing?", "    return output\n", ""),
        ("forward is given Tensors", "*arrays_of(inputs), **", "*inputs, **"),
        ("the first argument of forward is not numpy", "forward(np,", "forward(None,"),
        ("node.inputs holds arrays", "Node(op, inputs,", "Node(op, arrays_of(inputs),"),
        ("node.y is a Tensor", "inputs, output.data,", "inputs, output,"),
        ("node.parameters is {}", "output.data, parameters)", "output.data, {})"),
        ("has no node", "    output.node = Node(op, inputs, output.data, parameters)\n", ""),
        ("the result does not require a gradient", "    output.requires_grad = True\n", ""),
    ],
    "constants": [
        ("a product of constants requires a gradient", "if any(needs_gradient(x) for x in inputs):", "if True:"),
        ("one is enough (any, not all)", "any(", "all("),
        ("one is enough (any, not all)", "for x in inputs)", "for x in inputs[:1])"),
        ("constants are missing in node.inputs", "Node(op, inputs,", "Node(op, [x for x in inputs if needs_gradient(x)],"),
        ("a product of constants has a node", "        output.node = ", "    if True:\n        output.node = "),
    ],
    "order": [
        ("are inputs before the nodes that use them?", "finished[::-1]", "finished"),
        ("a node appears twice", "node is not None and node not in seen", "node is not None"),
        ("Python's limit of recursion", "    finished, seen, stack =", "    def depth(x):\n        return max([0, *(1 + depth(i) for i in x.node.inputs if isinstance(i, Tensor))]) if x.node else 0\n    depth(output) if len(str(output.node)) < 0 or output.node.inputs[0].node and output.node.inputs[1] == 1.0 else 0\n    finished, seen, stack ="),
        ("before it is complete", "            seen.add(node)\n            stack.append((node, True))\n", "            seen.add(node)\n            finished.insert(0, node)\n"),
        ("nodes for", "for x in node.inputs if", "for x in node.inputs[:1] if"),
    ],
    "backward": [
        ("one use overwrites the other", "sums[key] + g_x if key in sums else g_x", "g_x"),
        ("the factor of the first op is missing", "backward(np, g, node.y,", "backward(np, np.ones_like(g), node.y,"),
        ("the op is handed its input as y", "g, node.y,", "g, arrays_of(node.inputs)[0],"),
        ("the argument `gradient` is not used", "np.ones_like(output.data) if gradient is None else gradient", "np.ones_like(output.data)"),
        ("a constant has a gradient", "if needs_gradient(x) and g_x is not None", "if isinstance(x, Tensor) and g_x is not None"),
        ("the result of an op has a grad", "        g = sums.pop(node)\n", "        g = sums.pop(node)\n        output.grad = Tensor(g)\n"),
        ("is an array; put a Tensor there", "Tensor(g)", "g"),
        ("the sum over all its uses", "sums[key] + g_x if key in sums else g_x", "g_x if x.node else sums.get(key, 0) + g_x"),
        ("no gradient has arrived", "        x.grad = Tensor(g)\n", "        pass\n"),
    ],
    "leaves": [
        ("the second pass overwrites the first", "g.copy() if x.grad is None else x.grad.data + g", "g.copy()"),
        ("handed both the same array", "g.copy() if", "(g if g is not gradient else g.copy()) if"),
        ("add with + into a new one", "                sums[key] = sums[key] + g_x if key in sums else g_x\n", "                if key in sums:\n                    sums[key] += g_x\n                else:\n                    sums[key] = g_x\n"),
        ("the second pass is lost", "x.grad.data + g)", "x.grad.data)"),
        ("the grad is the caller's array", "g.copy() if x.grad is None", "(g if g is gradient else g.copy()) if x.grad is None"),
    ],
    "unbroadcast": [
        ("a mean over the repetitions", "    g = g.sum(", "    g = g.mean("),
        ("one repetition alone", "    g = g.sum(axis=tuple(range(lead)))", "    g = g[(0,) * lead]"),
        ("the last axes are summed over", "axis=tuple(range(lead))", "axis=tuple(range(g.ndim - lead, g.ndim))"),
        ("axes of size 1 were repeated", "return g.sum(axis=repeated, keepdims=True)", "return g"),
        ("keepdims=True", "keepdims=True", "keepdims=False"),
        ("one leading axis is summed over", "axis=tuple(range(lead))", "axis=0"),
    ],
    "broadcasting": [
        ("call unbroadcast before it goes on", "if node.op.broadcasts:", "if False:", "if g_x.shape != x.shape:", "if False:"),
        ("not for leaves alone", "if node.op.broadcasts:", "if node.op.broadcasts and x.node is None:", "if g_x.shape != x.shape:", "if False:"),
        ("give it the dtype of its input", "g_x.astype(x.dtype, copy=False)", "g_x"),
        ("no RuntimeError was raised", "if g_x.shape != x.shape:", "if False:"),
        ("no RuntimeError was raised", "if node.op.broadcasts:", "if True:", "g_x = unbroadcast(g_x, x.shape)", "g_x = np.broadcast_to(unbroadcast(g_x, x.shape) if g_x.ndim >= x.ndim else g_x, x.shape)"),
        ("does not name the op", "{node.op.__name__}", "an op"),
    ],
    "no_grad": [
        ("still has a node", "        recording = False\n", "        pass\n"),
        ("restore what was before", "self.before.pop()", "True"),
        ("nothing is recorded any more", "        recording = self.before.pop()\n", "        pass\n"),
        ("must not return True", "        recording = self.before.pop()\n", "        recording = self.before.pop()\n        return True\n"),
        ("nothing is recorded any more", "        recording = self.before.pop()\n", "        recording = self.before.pop() and error[0] is None\n"),
        ("remember each state", "self.before.append(recording)", "self.before = [recording, recording]"),
    ],
    "numerical_gradient": [
        ("", "(2 * eps)", "eps"),
        ("", "f(x + step) - f(x - step)", "f(x + step) - f(x)"),
        ("eps is not used", "step[place] = eps", "step[place] = 1e-5; eps = 1e-5"),
        ("changes x in place", "step = np.zeros_like(x)\n        step[place] = eps", "step = x\n        step[place] += eps"),
    ],
}
# fmt: on
