"""Random trees and random sequences of tokens."""

from hypothesis import strategies as st

from additions.parsing.trees import Leaf, Tree

# words as treebanks have them: anything but white space and brackets
WORDS = st.text(st.characters(exclude_characters="() \t\n\r\f\v", exclude_categories=["Cs"]), min_size=1, max_size=5)
LABELS = st.sampled_from(["S", "NP", "VP", "SBAR", "X|Y", "?"])
TAGS = st.sampled_from(["NN", "DT", ",", "``", "-LRB-", "PRP$", "."])
LEAVES = st.builds(Leaf, TAGS, WORDS)


def _grown(children):
    return st.builds(Tree, LABELS, st.lists(children, min_size=1, max_size=4).map(tuple))


NODES = st.recursive(LEAVES, _grown, max_leaves=12)
TREES = st.builds(Tree, st.just("TOP"), st.lists(NODES, min_size=1, max_size=3).map(tuple))
TOKENS = st.lists(
    st.one_of(
        LABELS.map("({}".format),
        LABELS.map("){}".format),
        TAGS.map("({})".format),
        st.sampled_from(["cat", "(", ")", "()", "⁇", "((NN)", "(S)NP"]),
    ),
    max_size=40,
)
