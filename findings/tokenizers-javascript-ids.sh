#!/bin/sh
# tokenizers 0.23.3 (Python) and @huggingface/tokenizers 0.2.0 (JavaScript): one tokenizer.json, two sequences of ids.
#
# Seen on 2026-11-28 with these, Python 3.11, Node.js 20.20.
# Expected before running: the file that the Python library trains and writes gives the same ids in the JavaScript library of the same makers,
#   which reads it without a word; byte-level BPE, BERT's WordPiece, unigram and BPE on WhitespaceSplit do.
# Why: the file names model, normalizer and pre-tokenizer with all options; a model in a browser is fed with ids of the one, trained with the
#   other.  The README names differences of regular expressions only.
# Seen, on German, French and English sentences that the tokenizers were trained on: pre_tokenizers.Whitespace (that of the Python
#   library's quick tour) takes letters with accents for punctuation: "Brücke" is Br, ü, ck, e in place of one word.
#   Split(" ", "merged_with_previous") cuts the space off in place of keeping it; Punctuation("removed") leaves the
#   punctuation in; a BPE model with continuing_subword_prefix never merges; an unknown word of a WordLevel model has undefined in
#   place of an id.  The English sentence passes the first of these, so a test in English does too.
set -eu
command -v npm > /dev/null || { echo "This script needs Node.js and npm."; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tokenizers==0.23.3
cd "$dir"
npm install --silent --no-audit --no-fund --prefix "$dir" @huggingface/tokenizers@0.2.0
cat > train.py <<'PY'
import json

from tokenizers import Tokenizer, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre

lines = ["Die Brücke führt über den Fluss.", "L'été déjà passé, les élèves étudient.", "She doesn't know the answer, does she?"]
special = {"special_tokens": ["<unk>"], "show_progress": False}


def bpe(pre_tokenizer, **options):
    return models.BPE(unk_token="<unk>", **options), trainers.BpeTrainer(vocab_size=300, **special, **options), pre_tokenizer


word_piece = trainers.WordPieceTrainer(vocab_size=200, **special)
unigram = trainers.UnigramTrainer(vocab_size=80, unk_token="<unk>", **special)
cases = {
    "byte-level BPE": bpe(pre.ByteLevel()),
    "WordPiece of BERT": (models.WordPiece(unk_token="<unk>"), word_piece, pre.BertPreTokenizer()),
    "unigram": (models.Unigram(), unigram, pre.Metaspace()),
    "BPE on WhitespaceSplit": bpe(pre.WhitespaceSplit()),
    "BPE on Whitespace": bpe(pre.Whitespace()),
    "BPE on Split, merged_with_previous": bpe(pre.Split(" ", "merged_with_previous")),
    "BPE on Punctuation, removed": bpe(pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("removed")])),
    "BPE, continuing_subword_prefix": bpe(pre.WhitespaceSplit(), continuing_subword_prefix="##"),
    "WordLevel": (models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=12, **special), pre.WhitespaceSplit()),
}
out = {}
for name, (model, trainer, pre_tokenizer) in cases.items():
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if name == "WordPiece of BERT":
        tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.train_from_iterator(lines * 4, trainer)
    encoded = [tokenizer.encode(line) for line in lines]
    out[name] = {"file": json.loads(tokenizer.to_str()), "ids": [e.ids for e in encoded], "tokens": [e.tokens for e in encoded]}
with open("cases.json", "w") as file:
    json.dump({"lines": lines, "cases": out}, file)
PY
cat > compare.cjs <<'JS'
const { Tokenizer } = require("@huggingface/tokenizers");

const { lines, cases } = JSON.parse(require("fs").readFileSync("cases.json", "utf8"));
const same = ["byte-level BPE", "WordPiece of BERT", "unigram", "BPE on WhitespaceSplit"];
let changed = false;
for (const [name, { file, ids, tokens }] of Object.entries(cases)) {
  const tokenizer = new Tokenizer(file, {});
  const found = lines.map((line) => tokenizer.encode(line));
  const differ = lines.map((_, k) => k).filter((k) => JSON.stringify(found[k].ids) !== JSON.stringify(ids[k]));
  console.log(`${name}: ${differ.length} of ${lines.length} sentences differ`);
  if (differ.length) {
    console.log(`  Python     ${tokens[differ[0]].join(" | ")}   ${ids[differ[0]].join(" ")}`);
    console.log(`  JavaScript ${found[differ[0]].tokens.join(" | ")}   ${found[differ[0]].ids.map(String).join(" ")}`);
  }
  changed = changed || (differ.length === 0) !== same.includes(name);
}
if (changed) {
  console.log("The behaviour has changed.");
  process.exit(1);
}
JS
"$dir/venv/bin/python" train.py
node compare.cjs
