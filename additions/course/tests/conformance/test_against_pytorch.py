"""PyTorch's attention, layers and Transformer, as somebody hands them in."""

import math

import pytest

from additions.course.conformance import check_attention, check_layer, check_model
from minitf.model.transformer import sinusoids

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
nn = torch.nn
V, D = 20, 8


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


class Translator(nn.Module):
    """torch.nn.Transformer with embeddings, positions and output; and the two mistakes that are seen most often."""

    def __init__(self, scaled=True, causal=True):
        super().__init__()
        self.scale, self.causal = math.sqrt(D) if scaled else 1.0, causal
        self.embedding = nn.Embedding(V, D)
        self.transformer = nn.Transformer(D, 2, 1, 1, 16, batch_first=True)
        self.output = nn.Linear(D, V, bias=False)
        self.output.weight = self.embedding.weight

    def embed(self, ids):
        x = self.embedding(ids)
        return self.scale * x + torch.from_numpy(sinusoids(ids.shape[1], D)).to(x.dtype)

    def forward(self, source, target):
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        padding = source == 0
        hidden = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=future, src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.output(hidden)


def checked(model, **more):
    matrix, first = model.embedding.weight, model.transformer.encoder.layers[0]
    weights = {"source_embedding": matrix, "target_embedding": matrix, "output": model.output.weight}
    return check_model(
        model, V, embed=model.embed, weights=weights, attention=first.self_attn, encoder_layer=first,
        loss=nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=0), **more,
    )  # fmt: skip


def outcomes(table, outcome):
    return [row.name for row in table.rows if row.outcome == outcome]


def test_attention():
    assert len(outcomes(check_attention(nn.functional.scaled_dot_product_attention), "right")) == 6
    assert len(outcomes(check_attention(nn.MultiheadAttention(D, 2)), "right")) == 6


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers(norm_first):
    order = "pre" if norm_first else "post"
    layer = nn.TransformerEncoderLayer(D, 2, 16, norm_first=norm_first, batch_first=True)
    assert outcomes(check_layer(layer, D, norm=order), "not given") == ["future"]
    assert check_layer(layer, D, norm=order).is_right
    layer = nn.TransformerDecoderLayer(D, 2, 16, norm_first=norm_first)
    assert check_layer(layer, D, norm=order, causal=True).is_right


def test_a_model_is_right_in_all_that_it_gives():
    table = checked(Translator())
    assert outcomes(table, "not given") == ["cached = uncached"]
    assert table.is_right


def test_the_parts_of_a_model_are_found():
    assert outcomes(check_model(Translator(), V), "not given") == ["label smoothing", "cached = uncached"]
    assert check_model(Translator(), V).is_right
    assert outcomes(check_model(Translator(scaled=False), V), "wrong") == ["embeddings · √d_model"]


def test_the_two_public_mistakes():
    assert outcomes(checked(Translator(causal=False)), "wrong") == ["future"]
    assert outcomes(checked(Translator(scaled=False)), "wrong") == ["embeddings · √d_model"]


def test_functions_around_modules_are_called_with_tensors():
    model = Translator(causal=False).eval()
    table = check_model(lambda source, target: model(source, target), V)
    assert outcomes(table, "wrong") == ["future"]
    assert check_attention(lambda q, k, v, mask: nn.functional.scaled_dot_product_attention(q, k, v, mask)).is_right
    layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True).eval()
    table = check_layer(lambda x, real: layer(x, src_key_padding_mask=~real), D, dtype="float32")
    assert outcomes(table, "not given") == ["future", "residual", "gradients"]
    assert table.is_right
