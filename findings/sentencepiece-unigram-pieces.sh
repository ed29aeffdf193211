#!/bin/sh
# SentencePiece 0.2.3 learns other unigram pieces than 0.2.2 from the same text with the same options; its BPE pieces are the same.
#
# Seen on 2026-11-27 with sentencepiece 0.2.2 and 0.2.3, Python 3.11.
# Expected before running: the same model: one thread, no sampling, a minor release; each release gives the same model twice.
# Seen: scores differ in the second digit, and pieces too: of 60 pieces of the text below one is another, of 200 six.  A vocabulary that is
#   trained again by a recipe (and not kept as a file) no longer fits the embeddings of a model trained before.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
cat > "$dir/train.py" <<'PY'
import io
import json
import random
import sys

import sentencepiece

rng = random.Random(0)
words = ["lo", "wer", "new", "est", "wid", "low", "er", "the", "cat", "sat", "on", "mat", "dog", "ran"]
text = [" ".join("".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(8)) for _ in range(400)]
found = {}
for kind, size in (("unigram", 60), ("unigram", 200), ("bpe", 60), ("bpe", 200)):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=size, model_type=kind, num_threads=1, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    found[f"{kind} {size}"] = sorted(pieces.id_to_piece(i) for i in range(size))
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
PY
for version in 0.2.2 0.2.3; do
    "$dir/venv/bin/pip" install -q sentencepiece==$version
    for run in 1 2; do "$dir/venv/bin/python" "$dir/train.py" "$dir/$version.$run"; done
done
"$dir/venv/bin/python" - "$dir" <<'PY'
import json
import sys

old, again, new, new_again = (json.load(open(f"{sys.argv[1]}/{name}")) for name in ("0.2.2.1", "0.2.2.2", "0.2.3.1", "0.2.3.2"))
changed = old != again or new != new_again
for name in old:
    gone, come = (sorted(set(a[name]) - set(b[name])) for a, b in ((old, new), (new, old)))
    print(f"{name}: only in 0.2.2 {gone}, only in 0.2.3 {come}")
    changed |= bool(gone) != name.startswith("unigram")
raise SystemExit("The behaviour has changed." if changed else 0)
PY
