"""Translate with a trained run: the best translation, a list with scores, the scores of given translations.

After `make demo`, which trains runs/demo in a minute: `python -m examples.translate runs/demo`.
"""

import sys

from minitf import Translator

run = sys.argv[1] if len(sys.argv) > 1 else "runs/demo"
translator = Translator.load(run)

lines = ["at a quarter past seven", "Anna paid one euro and eighty cents for the apple."]
for line, translation in zip(lines, translator.translate(lines), strict=True):
    print(f"{line}\n  → {translation}")

# Several translations of a line, best first; any setting of the search is a keyword argument.
(best, *others) = translator.translate_nbest(lines[:1], beam=4)[0]
for each in (best, *others):
    print(f"{each.log_probability:9.3f}  {each.text}")

# The probability that the model gives to a translation of somebody else.
(given,) = translator.score([(lines[0], "um Viertel vor sieben")])
print(f"{given.log_probability:9.3f}  {given.text}")

# Lines from a stream, translated as they are read: here standard input, a line out for each line in.
if not sys.stdin.isatty():
    for translation in translator.translate_stream(line.rstrip("\n") for line in sys.stdin):
        print(translation)
