"""Damage that does not show at a single point, in C order, in float64 and with all gradients wanted."""

from tests.mutants.damage import Mutant

E = "autograd.ops.elementwise"
N = "autograd.ops.nn"
F = "autograd.fast.ops"
U = "autograd.fast.unfused"

# fmt: off
MUTANTS = [
    # ---- Buffers ----
    Mutant(f"{E}:Exp.forward", "returns a buffer that the next call overwrites", "return xp.exp(x)",
           'Exp.rooms = vars(Exp).get("rooms", {})\n'
           "        y = xp.exp(x)\n"
           "        return xp.exp(x, out=Exp.rooms.setdefault((y.shape, y.dtype), xp.array(y)))"),
    Mutant(f"{U}:Dropout.forward", "keeps its mask in the class, where the next call overwrites it",
           "self.save(keep)",
           'Dropout.kept = vars(Dropout).get("kept", [keep])\n        Dropout.kept[0] = keep\n'
           "        self._saved = Dropout.kept"),
    Mutant(f"{U}:LayerNorm.forward", "saves in a buffer that the next call overwrites",
           "self.save(normalised,",
           'LayerNorm.rooms = vars(LayerNorm).get("rooms", {})\n'
           "        room = LayerNorm.rooms.setdefault((y.shape, y.dtype), y.copy())\n"
           "        room[...] = normalised\n"
           "        self.save(room,"),
    # ---- Frozen inputs ----
    Mutant(f"{F}:Linear.backward", "another gradient of x where the weight is frozen",
           "weight if needs_x and after", "(weight if needs_weight else 1.01 * weight) if needs_x and after"),
    Mutant(f"{F}:Linear.backward", "another gradient of the weight where x is frozen",
           "rows_of(x) if needs_weight", "rows_of(x if needs_x else -x) if needs_weight"),
    Mutant(f"{U}:Matmul.backward", "a gradient only where both factors need one",
           "if needs_a:", "if needs_a and needs_b:"),
    # ---- float32 ----
    Mutant(f"{E}:Tanh.backward", "1 % too little in float32", "y * y", 'y * y * (1.01 if y.dtype == "float32" else 1)'),
    Mutant(f"{N}:normalised", "by way of float16 in float32", "return centred * inverse_std, inverse_std",
           'by_way = inverse_std.astype("float16" if x.dtype == "float32" else x.dtype).astype(x.dtype)\n'
           "    return centred * by_way, by_way", near=("LayerNorm",)),
    # ---- Memory layouts ----
    Mutant(f"{E}:Exp.backward", "the incoming gradient in the order of its memory",
           "g * y", 'g.ravel("K").reshape(g.shape) * y'),
    Mutant("autograd.ops.arithmetic:Negative.backward", "wrong sign for negative strides",
           "-g", "-g if min(g.strides, default=0) >= 0 else g"),
    Mutant(f"{E}:Square.backward", "wrong for an incoming gradient of repeated numbers",
           "g * 2 * x", "g * (2 if g.flags.writeable else 1) * x"),
    # ---- Other points ----
    Mutant(f"{E}:Exp.backward", "cut off at 100", "g * y", "g * xp.minimum(y, 100)"),
    Mutant(f"{E}:Square.backward", "wrong beyond 3", "g * 2 * x", "g * 2 * xp.clip(x, -3, 3)"),
    Mutant(f"{E}:Sqrt.backward", "wrong for outputs above 2", "(2 * y)", "(2 * xp.minimum(y, 2))"),
]
