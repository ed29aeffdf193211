"""Parts that are found in a module by their sizes."""

from types import SimpleNamespace

import numpy as np

from additions.course.conformance.adapters import embeddings_in


def module(**named):
    return SimpleNamespace(named_modules=lambda: named.items())


def embedding(rows, weight):
    return SimpleNamespace(num_embeddings=rows, weight=weight)


def linear(out_features, weight):
    return SimpleNamespace(out_features=out_features, weight=weight)


def test_embeddings_and_output_have_the_size_of_the_vocabulary():
    found = embeddings_in(
        module(positions=embedding(50, "p"), source=embedding(9, "s"), target=embedding(9, "t"), up=linear(30, "u"),
               out=linear(9, "o")), 9,
    )  # fmt: skip
    assert found == {"weights": {"source_embedding": "s", "target_embedding": "t", "output": "o"}}


def test_one_embedding_serves_both_sides_and_nothing_is_guessed():
    one = module(embedding=embedding(9, "e"), out=linear(9, "o"))
    assert embeddings_in(one, 9)["weights"] == {"source_embedding": "e", "target_embedding": "e", "output": "o"}
    assert embeddings_in(module(embedding=embedding(9, "e")), 9) == {}
    assert embeddings_in(one, 10) == {}
    assert embeddings_in(object(), 9) == {}


class OfArrays:
    def __init__(self, *matrices):
        self.weights = {str(k): each for k, each in enumerate(matrices)}


def test_matrices_of_an_object_of_arrays_are_found_by_their_sizes():
    e, output = np.ones((9, 4)), np.ones((4, 9))
    found = embeddings_in(OfArrays(e, np.ones((4, 4)), np.ones(9)), 9)["weights"]
    assert all(each is e for each in found.values())
    found = embeddings_in(OfArrays(e, output), 9)["weights"]
    assert found["source_embedding"] is e
    assert found["output"] is output
    assert embeddings_in(OfArrays(e, np.ones((9, 5))), 9) == {}  # of two widths: one of them is something else
    assert embeddings_in(lambda ids: e[ids], 9)["weights"]["output"] is e
