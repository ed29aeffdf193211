"""Damage to the fast implementations of ops, and to what saves memory beside them."""

from tests.mutants.damage import Mutant

F = "autograd.fast.ops"
U = "autograd.fast.unfused"
ROWS, DEFERRED = (f"autograd.fast.row_gradient:{name}" for name in ("RowGradient", "DeferredGradient"))
KERNELS, SUMS = "autograd.fast.training:TrainingKernels", "autograd.fast.training:row_sums"
AGAIN = "autograd.fast.recomputed"
ROW_TESTS = ("tests/autograd/fast/test_row_gradient.py",)
AGAIN_TESTS = ("tests/autograd/fast/test_recomputed.py",)

# fmt: off
MUTANTS = [
    # ---- Elements ----
    Mutant(f"{U}:Gelu.backward", "density dropped from the slope", "slope += step", "slope = step"),
    Mutant(f"{U}:Gelu.backward", "density not times x", "slope *= self.xp.clip(wide, -40, 40)", "pass"),
    Mutant(f"{U}:Dropout.backward", "scale forgotten", "g_y, keep, self.scale", "g_y, keep, 1.0"),
    Mutant(f"{U}:Dropout.backward", "mask ignored", "self.kernels.dropout(g_y, keep, self.scale)", "g_y * self.scale"),
    Mutant(f"{U}:Dropout.backward", "mask the wrong way round", "dropout(g_y, keep,", "dropout(g_y, ~keep,"),
    Mutant(f"{U}:Dropout.backward", "mask drawn again",
           "(keep,) = self.saved", "keep = self.draw(nn.draw(g_y.shape, 1 - 1 / self.scale))[0]"),
    Mutant(f"{F}:unpacked", "the bits of each byte in the other order",
           "count=math.prod(shape))", 'count=math.prod(shape), bitorder="little")',
           near=("tests/autograd/ops/test_nn.py",)),
    Mutant(f"{U}:Where.forward", "any number counts as 0", "and not any(np.asarray(b).tobytes())", "", near=("Where",)),
    Mutant(f"{U}:Where.backward", "the mask the wrong way round for a", "keep != 0", "keep == 0", near=("Where",)),
    Mutant(f"{U}:Where.backward", "the gradient of a for b", "(g_y, keep == 0)", "(g_y, keep != 0)", near=("Where",)),
    # ---- Products ----
    Mutant(f"{U}:Matmul._g_a", "not transposed back", "xp.matmul(b, g_y.T).T", "xp.matmul(b, g_y.T).reshape(shape)"),
    Mutant(f"{U}:Matmul._g_a", "b not transposed", "rows_of(g_y), b.T)", "rows_of(g_y), b.reshape(b.T.shape))"),
    Mutant(f"{U}:Matmul._g_a", "b not transposed, in a batch",
           "b.swapaxes(-1, -2)), shape)", "b.reshape(b.swapaxes(-1, -2).shape)), shape)"),
    Mutant(f"{U}:Matmul._g_b", "not summed over the batch axes that b lacks: the mean",
           "(rows_of(a).T @ rows_of(g_y))", "(rows_of(a).T @ rows_of(g_y) / math.prod(a.shape[:-2]))"),
    Mutant(f"{U}:_rows_first", "batch elements instead of rows brought together",
           "xp.moveaxis(a, -2, 0)", "a", near=("Matmul",)),
    Mutant(f"{F}:Linear.backward", "x from a weight of another order",
           "weight if needs_x and after", "weight.reshape(weight.T.shape).T if needs_x and after"),
    Mutant(f"{F}:Linear.backward", "no gradient for x where the bias needs none",
           "weight if needs_x and after", "weight if needs_x and needs_bias and after"),
    Mutant(f"{F}:Linear.backward", "ReLU forgotten where the bias needs no gradient",
           "g_rows = self.kernels.relu_backward(g_rows, rows_of(y))", "pass", near=("LinearRelu",)),
    Mutant(f"{F}:LinearHeads.backward", "the gradient of the first output alone",
           "self._heads(g_rows, i)[...] = g_y", "self._heads(g_rows, i)[...] = g_y * (i == 0)"),
    Mutant(f"{F}:LinearHeads.backward", "what a consumer returned is not read where it was given memory",
           "if g_y is not places[i]:", "if places[i] is None:"),
    Mutant(f"{F}:LinearHeads.gradient_place", "two consumers write into the same memory",
           "self.freed or self.places[i] is not None", "self.freed"),
    Mutant("autograd.fast.fused:gradient_places", "of every result, the memory for the gradient of the first",
           "y.index)", "0)", near=("tests/autograd/ops/test_products.py",)),
    Mutant(f"{F}:LinearHeads._heads", "heads and positions are not swapped, only their sizes",
           "self.heads, width // self.heads).swapaxes(-2, -3)",
           "self.heads, width // self.heads).reshape(*self.leading[:-1], self.heads, -1, width // self.heads)"),
    # ---- Embedding ----
    Mutant(f"{F}:ScaledEmbedding.backward", "dropout forgotten", "if keep is not None:", "if False:"),
    Mutant(f"{F}:ScaledEmbedding.backward", "positions: the last sentence for the sum over all",
           "self._g_positions(g_y)", "g_y.reshape(-1, *g_y.shape[-2:])[-1]"),
    Mutant(SUMS, "scale forgotten", "if scale != 1:", "if False:", near=("ScaledEmbedding",)),
    Mutant(SUMS, "scaled twice", "summed *= scale", "summed *= scale**2", near=("ScaledEmbedding",)),
    Mutant(f"{KERNELS}.add_rows_", "rows overwrite the sum so far", "total[rows] +=", "total[rows] =", near=ROW_TESTS),
    Mutant(f"{KERNELS}.add_rows_", "gradients of other rows",
           "xp.arange(len(rows))", "xp.arange(len(rows))[::-1]", near=ROW_TESTS),
    Mutant(f"{DEFERRED}.plus", "a sum that is not written in place is lost",
           "total + self.dense()", "self.dense()", near=ROW_TESTS),
    Mutant(f"{DEFERRED}.__array_ufunc__", "rows are not added to a sum in place", "self.add_to(out[0])", "pass",
           near=ROW_TESTS),
    Mutant(f"{DEFERRED}.__array_ufunc__", "what is added to rows is lost",
           "np.add(total, second, out=total)", "total", near=ROW_TESTS),
    # ---- Layers ----
    Mutant(f"{U}:LayerNorm.forward", "saves y in the place of x̂",
           "self.save(normalised, inverse_std, weight)", "self.save(y, inverse_std, weight)"),
    Mutant(f"{U}:LayerNorm.backward", "bias gets the gradient of the weight",
           "reshape(g_y.shape), g_weight, g_bias", "reshape(g_y.shape), g_weight, g_weight"),
    Mutant(f"{F}:DropoutAddLayerNorm.backward", "residual gets the dropped gradient",
           "g_residual.reshape(g_y.shape), g_weight", "g_x.reshape(g_y.shape), g_weight"),
    Mutant(f"{F}:DropoutAddLayerNorm.backward", "no gradient through the residual connection",
           "g_residual.reshape(g_y.shape), g_weight", "None, g_weight"),
    Mutant(f"{F}:DropoutAddLayerNorm.backward", "mask ignored", "weight, keep, self.scale", "weight, None, self.scale"),
    Mutant(f"{F}:DropoutAddLayerNorm.backward", "dropout scale forgotten", "keep, self.scale\n", "keep, 1.0\n"),
    # ---- Attention ----
    Mutant(f"{F}:ScaledDotProductAttention.backward", "scale forgotten",
           "self.keep_scale, self.scale, places", "self.keep_scale, 1.0, places"),
    Mutant(f"{F}:ScaledDotProductAttention.backward", "dropout forgotten",
           "tuple(kept), keep, self.keep_scale", "tuple(kept), None, self.keep_scale"),
    Mutant(f"{F}:ScaledDotProductAttention.backward", "dropout mask drawn again", "q, k, v, keep, *kept = self.saved",
           "q, k, v, keep, *kept = self.saved\n"
           "        keep = self.draw(nn.draw((*leading_shape(q, k, v), q.shape[-2], k.shape[-2]), "
           "1 - 1 / self.keep_scale))[0]"),
    Mutant(f"{F}:ScaledDotProductAttention.backward",
           "gradients of keys and values exchanged where they have one shape",
           "dtype = self.output_specs[0].dtype",
           "dtype = self.output_specs[0].dtype\n"
           "        g_q, g_k, g_v = gradients\n"
           "        gradients = (g_q, g_v, g_k) if g_k.shape == g_v.shape else (g_q, g_k, g_v)"),
    # ---- The loss ----
    Mutant(f"{U}:CrossEntropy.forward", "label smoothing forgotten in the gradient",
           "self.kernels.cross_entropy_(g_logits, targets, label_smoothing)",
           "self.kernels.cross_entropy(logits, targets, label_smoothing)\n"
           "            self.kernels.cross_entropy_(g_logits, targets, 0.0)"),
    Mutant(f"{U}:CrossEntropy.forward", "ignored rows get a gradient",
           "self.kernels.clear_rows_(g_logits, counted)", "pass"),
    Mutant(f"{U}:CrossEntropy.backward", "divisor forgotten: sum for mean",
           "nn.of_each(g_loss, counted, reduction)", "g_loss"),
    Mutant(f"{U}:CrossEntropy.backward", "cotangent forgotten",
           "g_logits * self.xp.where(counted, g_rows, 1)[:, None]", "g_logits * counted[:, None]"),
    Mutant(f"{U}:CrossEntropy.backward", "writes into what it saved",
           "return g_logits * self.xp.where(counted, g_rows, 1)[:, None]",
           "g_logits *= self.xp.where(counted, g_rows, 1)[:, None]\n        return g_logits"),
    Mutant(f"{F}:LinearCrossEntropy.backward", "divisor forgotten: sum for mean",
           "nn.of_each(g_loss, self.parameters[\"counted\"], self.parameters[\"reduction\"])", "g_loss"),
    Mutant(f"{F}:LinearCrossEntropy.backward", "cotangent of each row forgotten",
           "counted, g_loss, self", "counted, None, self"),
    Mutant(f"{F}:LinearCrossEntropy.backward", "cotangent forgotten", "times(g, factor,", "times(g, 1.0,"),
    Mutant(f"{F}:LinearCrossEntropy._of_all_classes", "gradients of other classes",
           "whole[allowed] = g", "whole[: len(g)] = g"),
    # ---- Outputs that are computed again ----
    Mutant(f"{F}:ScaledDotProductAttention.again", "dropout forgotten",
           "(p, v, keep, self.keep_scale)", "(p, v, None, 1.0)", near=AGAIN_TESTS),
    Mutant(f"{F}:DropoutAddLayerNorm.again", "the normalised rows without scale and shift",
           "self.kernels.scale_and_shift(normalised, weight, bias)", "normalised", near=AGAIN_TESTS),
    Mutant(f"{AGAIN}:Again.array", "what it is computed from may have changed",
           "safety.require_unchanged(arrays, self.since, self.op)", "pass", near=AGAIN_TESTS),
    Mutant(f"{AGAIN}:Again.__init__", "of arrays changed earlier, too, nothing is computed again",
           "None, safety.now()", "None, -1", near=AGAIN_TESTS),
    Mutant(f"{AGAIN}:Again.array", "a view is computed of what the op that makes it saved",
           "_arrays(self.saved) if self.before is None else (self.before.array(),)",
           "_arrays(self.saved)", near=AGAIN_TESTS),
]
