"""Trees as aligned lines of text, from which a parser is trained exactly as a translator is.

    train.words     the cat sleeps .                        the source
    train.tokens    (S(NP(DT) (NN)) (VP(VBZ)) (.))          the target
    train.trees     (TOP (S (NP (DT the) (NN cat)) …))      to score against, and to read

and the same for valid and test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from additions.parsing.linearise import linearise, parts
from additions.parsing.treebank import built_in_treebank
from additions.parsing.trees import Tree, as_token, clean, read_trees
from minitf.data.text import read_lines
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, remove_leftovers, require_regular

KINDS = ("words", "tokens", "trees")
HELD_OUT = 20
"""The last twentieth of the file is the test set, without held-out trees, and the one before it the validation set:
neighbours in a treebank come from one article, and a parser is to be tested on articles that it has not seen."""

PathPair = tuple[Path, Path]


@dataclass(frozen=True, kw_only=True)
class ParsingConfig:
    """The trees to learn from, and their tokens (section 6.3)."""

    trees: Path | None = None
    """Training treebank, in brackets; None: the built-in treebank, drawn from a grammar."""
    valid_trees: Path | None = None
    """Validation treebank; None: the twentieth of the trees before the test trees."""
    test_trees: Path | None = None
    """Test treebank; None: the last twentieth of the trees."""
    tags: str = "pos"
    """pos: the part of speech of each word; xx: one tag for all words except punctuation."""
    form: str = "joined"
    """joined: one token per word, made of its tag and the brackets around it; symbols: one token per bracket, as in the
    paper's reference 37, three times as long."""


def prepare(config: ParsingConfig, folder: Path, vocab_size: int, say: Callable[[str], object]) -> None:
    """Write the aligned texts of each split, and vocabulary.model.

    Raises: UserError for trees that cannot be used, and if a file cannot be written
    """
    if config.trees is None and (config.valid_trees or config.test_trees):
        given = "valid-trees" if config.valid_trees else "test-trees"
        raise UserError(
            f"--{given} is given without --trees; the built-in treebank includes its own: give --trees, too"
        )
    check_trees(config)
    splits: dict[str, Iterable[Tree]] = vars(built_in_treebank()) if config.trees is None else read_splits(config)
    with os_errors_explained(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
    for split, trees in splits.items():
        _write(trees, config, {kind: folder / f"{split}.{kind}" for kind in KINDS})
    learn_vocabulary((folder / "train.words", folder / "train.tokens"), vocab_size, folder / "vocabulary.model", say)


def check_trees(config: ParsingConfig) -> None:
    """Read every treebank once.  Raises: UserError for malformed trees, and for a treebank without a word"""
    paths = (config.trees, config.valid_trees, config.test_trees)
    for each in filter(None, paths):
        require_regular(each)  # before a byte of a pipe is taken
    for path in paths:
        if path is not None and not sum(1 for _ in _cleaned(read_trees(path))):
            raise UserError(f"{path} contains no tree with a word; give trees such as (S (NP (NN cat)) (VP (VB sit)))")


def learn_vocabulary(train: PathPair, vocab_size: int, path: Path, say: Callable[[str], object]) -> Vocabulary:
    """Learn subwords of the words, a piece for each common token of trees, and the brackets that spell the others."""
    words, tokens = train
    symbols = pieces_of_tokens(tokens, most=vocab_size // 2)
    say(f"learning a vocabulary of {vocab_size:,}: {len(symbols)} pieces of trees, and subwords of the words")
    return Vocabulary.train(read_lines(words), vocab_size, path, symbols=symbols)


def pieces_of_tokens(path: Path, most: int) -> list[str]:
    """The pieces for a text of tokens: the `most` common tokens that occur twice, with the space before each, and the
    brackets and tags of all tokens."""
    counts = Counter(token for line in read_lines(path) for token in line.split())
    common = [f" {token}" for token, count in counts.most_common(most) if count > 1]
    return [*common, *dict.fromkeys(part for token in counts for part in parts(token))]


def read_splits(config: ParsingConfig) -> dict[str, Iterable[Tree]]:
    """Read the trees of each split; held-out splits without a file of their own are cut from the end of `trees`."""
    assert config.trees is not None
    trees = list(_cleaned(read_trees(config.trees)))
    count = held_out_count(len(trees)) if config.valid_trees is None or config.test_trees is None else 0
    splits: dict[str, Iterable[Tree]] = {}
    for split, path in (("test", config.test_trees), ("valid", config.valid_trees)):
        if path is not None:
            splits[split] = read_trees(path)
        else:
            splits[split] = trees[-count:]
            del trees[-count:]
    return {"train": trees, **splits}


def held_out_count(trees: int) -> int:
    """Number of trees held out of a file for each of the two splits.  Raises: UserError if there are too few"""
    if trees < 3:
        raise UserError(
            f"the treebank has {trees} trees, of which none can be held out; give more, or held-out ones of their own"
        )
    return max(1, trees // HELD_OUT)


def _write(trees: Iterable[Tree], config: ParsingConfig, paths: dict[str, Path]) -> None:
    """Write the lines of one split; trees without a word are left out."""
    with ExitStack() as stack:
        words, tokens, brackets = (stack.enter_context(atomic_write(paths[kind], "w")) for kind in KINDS)
        for tree in _cleaned(trees):
            words.write(" ".join(map(as_token, tree.words())) + "\n")
            tokens.write(" ".join(linearise(tree, config.tags, config.form)) + "\n")
            brackets.write(f"{tree}\n")


def _cleaned(trees: Iterable[Tree]) -> Iterator[Tree]:
    return (cleaned for cleaned in map(clean, trees) if cleaned is not None)
