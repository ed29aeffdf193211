"""Parts that are found in a module by their sizes."""

from types import SimpleNamespace

from minitf.learn.conformance.adapters import embeddings_in


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
