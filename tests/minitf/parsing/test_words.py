"""Raw text into words, and words into tokens."""

import pytest

from minitf.data.text import normalise
from minitf.parsing.words import as_token, tokenize


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The cat sleeps.", "The cat sleeps ."),
        ('"Don\'t go," he said (quietly).', "`` Do n't go , '' he said -LRB- quietly -RRB- ."),
        ("“Yes,” she said.", "`` Yes , '' she said ."),
        ("Dr. Smith's cat paid $10,000 at 7:30...", "Dr. Smith 's cat paid $ 10,000 at 7:30 ..."),
        ("I cannot; they're “here”—now!", "I can not ; they 're `` here '' -- now !"),
        ("the dogs' bowl [1]", "the dogs ' bowl [ 1 ]"),
        ("", ""),
    ],
)
def test_tokenize(line, words):
    assert tokenize(line) == words.split()
    assert tokenize(words.replace("-LRB-", "(").replace("-RRB-", ")").replace("``", '"')) == words.split()


@pytest.mark.parametrize(
    ("word", "token"), [("cat", "cat"), ("a\u00a0b", "ab"), ("\u2009", "_"), ("\u2581", "_"), ("e\u0301", "é")]
)
def test_tokens_survive_the_vocabulary(word, token):
    assert as_token(word) == normalise(as_token(word)) == token
