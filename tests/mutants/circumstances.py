"""Damage that does not show at a single point, in C order, in float64 and with all gradients wanted."""

from tests.mutants.damage import Mutant

E = "autograd.ops.elementwise"
A = "autograd.ops.activations"
M = "autograd.ops.products"
R = "autograd.ops.reduce"

# fmt: off
MUTANTS = [
    # ---- Buffers ----
    Mutant(f"{E}:Exp.forward", "saves in a buffer that the next call overwrites", "self.save(y)",
           'Exp.rooms = vars(Exp).get("rooms", {})\n'
           "        room = Exp.rooms.setdefault((y.shape, y.dtype), self.xp.array(y))\n"
           "        room[...] = y\n"
           "        self.save(room)"),
    Mutant(f"{A}:Tanh.forward", "keeps its output in the class, where the next call overwrites it",
           "self.save(y)",
           'Tanh.kept = vars(Tanh).get("kept", [y])\n        Tanh.kept[0] = y\n        self._saved = Tanh.kept'),
    # ---- Frozen inputs ----
    Mutant(f"{M}:Linear.backward", "another gradient of x where the weight is frozen", "product(g_rows, weight)",
           "product(g_rows, weight if needs_weight else 1.01 * weight)"),
    Mutant(f"{M}:Linear.backward", "another gradient of the weight where x is frozen", "weight_gradient(g_rows, x",
           "weight_gradient(g_rows if needs_x else -g_rows, x"),
    # ---- float32 ----
    Mutant(f"{A}:Tanh.backward", "1 % too little in float32", "y * y", 'y * y * (1.01 if y.dtype == "float32" else 1)'),
    Mutant(f"{R}:Softmax.forward", "saved by way of float16 in float32", "self.save(y)",
           'self.save(y.astype("float16").astype(y.dtype) if y.dtype == "float32" else y)'),
    # ---- Memory layouts ----
    Mutant(f"{E}:Exp.backward", "the incoming gradient in the order of its memory",
           "g_y * y", 'g_y.ravel("K").reshape(g_y.shape) * y'),
    Mutant(f"{E}:Negative.backward", "wrong sign for negative strides",
           "-g_y", "-g_y if min(g_y.strides, default=0) >= 0 else g_y"),
    Mutant(f"{E}:Square.backward", "wrong for an incoming gradient of repeated numbers",
           "g_y * 2 * x", "g_y * (2 if g_y.flags.writeable else 1) * x"),
    # ---- Other points ----
    Mutant(f"{E}:Exp.backward", "cut off at 100", "g_y * y", "g_y * self.xp.minimum(y, 100)"),
    Mutant(f"{E}:Square.backward", "wrong beyond 3", "g_y * 2 * x", "g_y * 2 * self.xp.clip(x, -3, 3)"),
    Mutant(f"{E}:Sqrt.backward", "wrong for outputs above 2", "(2 * y)", "(2 * self.xp.minimum(y, 2))"),
]
