"""Random models of Hugging Face's MarianMTModel: its logits, its greedy translations, and the way back."""

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest

from additions.interchange.formats import is_foreign, read_foreign, write_foreign
from additions.interchange.huggingface import downloaded, read_huggingface
from additions.interchange.outgoing import LearnedModel
from additions.interchange.stored_arrays import ModelFileError
from additions.interchange.tests.foreign_models import learned_model, write_run
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.translation.translator import Translator

MODELS = {
    "tied": {},
    "untied": {"tie_word_embeddings": False, "activation_function": "relu"},
    "target and output": {"share_encoder_decoder_embeddings": False, "encoder_layers": 1, "decoder_layers": 3},
    "nothing tied": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "activation_function": "gelu",
    },
    "not scaled": {"scale_embedding": False, "encoder_layers": 2},
}


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def sentences(count, seed):
    rng = random.Random(seed)
    words = ["".join(rng.choice("abcdefghij") for _ in range(rng.randint(1, 6))) for _ in range(200)]
    return [" ".join(rng.choice(words) for _ in range(rng.randint(1, 12))) for _ in range(count)]


def write_vocabularies(folder, at_least=0):
    """source.spm, target.spm and vocab.json, with the padding last; returns the number of pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    names = ["</s>", "<unk>"]
    for seed, side in enumerate(("source", "target")):
        (folder / f"{side}.txt").write_text("\n".join(sentences(1500, seed)))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / f"{side}.txt"), model_prefix=str(folder / side), vocab_size=120, minloglevel=2
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        names += [piece for piece in processor.id_to_piece(list(range(3, len(processor)))) if piece not in names]
    names += [f"filler{i}" for i in range(at_least - len(names) - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    return len(names)


def make(transformers, torch, folder, at_least=0, **changes):
    """Save a model with random weights."""
    folder.mkdir(exist_ok=True)
    size = write_vocabularies(folder, at_least)
    torch.manual_seed(len(changes))
    settings = {
        "vocab_size": size, "d_model": 32, "encoder_layers": 6, "decoder_layers": 2, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "activation_function": "silu",
        "pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "scale_embedding": True,
        "max_position_embeddings": 128, "init_std": 0.1, "forced_eos_token_id": None, "num_beams": 1,
    }  # fmt: skip
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**settings, **changes})).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    model.save_pretrained(folder)
    return model


def batch(found, seed=0):
    """Ids of sentences in our order, and those of Hugging Face for them."""
    ids = json.loads((found.folder / "vocab.json").read_text())
    theirs = np.array([ids.get(name, -1) for name in found.vocabulary.target.pieces_by_id])
    rng = np.random.default_rng(seed)
    source, target = rng.integers(4, len(theirs), (3, 9)), rng.integers(4, len(theirs), (3, 7))
    source[:, -1], target[:, 0] = 3, 2
    return source, target, theirs


class Found:
    """What was read of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.config, self.vocabulary, self.weights = read_foreign(folder)


@pytest.mark.heavy
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_logits_are_those_of_hugging_face(transformers, torch, name, dtype, tolerance, tmp_path):
    make(transformers, torch, tmp_path, **MODELS[name])
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path).eval().to(getattr(torch, dtype))
    found = Found(tmp_path)
    ours = Transformer(found.config.model, seed=None, dtype=dtype)
    ours.load_parameters(found.weights)
    ours.eval()
    source, target, ids = batch(found)
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor(ids[source]), decoder_input_ids=torch.tensor(ids[target])).logits
    logits = ours(source, target).data
    kept = np.flatnonzero(ids >= 0)
    np.testing.assert_allclose(logits[..., kept], expected.numpy()[..., ids[kept]], atol=tolerance)


@pytest.mark.heavy
def test_large_vocabularies(transformers, torch, tmp_path):
    make(transformers, torch, tmp_path, 65_001, d_model=8, encoder_layers=1, decoder_layers=1)
    found = Found(tmp_path)
    assert len(found.vocabulary) == 65_002  # with our padding
    test_logits = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    ours = Transformer(found.config.model, seed=None)
    ours.load_parameters(found.weights)
    ours.eval()
    source, target, ids = batch(found)
    with torch.no_grad():
        expected = test_logits(input_ids=torch.tensor(ids[source]), decoder_input_ids=torch.tensor(ids[target])).logits
    np.testing.assert_allclose(ours(source, target).data[..., 1:], expected.numpy()[..., ids[1:]], atol=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["tied", "nothing tied"])
def test_greedy_translations_are_those_of_hugging_face(transformers, torch, name, tmp_path):
    """200 sentences, alone there and in batches here, up to the length at which both are cut."""
    model = make(transformers, torch, tmp_path, **MODELS[name])
    translator = Translator.load(tmp_path, warn=lambda message: None)
    lines = sentences(200, 9)
    found = translator.translate_nbest(lines, beam=1, n_best=1, max_length=20)
    ids = json.loads((tmp_path / "vocab.json").read_text())
    names = translator.vocabulary.target.pieces_by_id
    rows = translator.vocabulary.source.encode(lines)
    for (best,), row in zip(found, rows, strict=True):
        source = torch.tensor([[*(ids[translator.vocabulary.source.pieces_by_id[i]] for i in row), 0]])
        out = model.generate(source, num_beams=1, do_sample=False, max_length=21)[0].tolist()[1:]
        ours = [ids[names[i]] for i in best.parts[0][1]]
        assert ours == out[: len(ours)]
        assert len(ours) >= 19 or out[len(ours)] == 0


@pytest.mark.heavy
@pytest.mark.parametrize("name", MODELS)
def test_what_hugging_face_saved_is_written_as_it_was(transformers, torch, name, tmp_path):
    make(transformers, torch, tmp_path / "theirs", **MODELS[name])
    write_foreign(LearnedModel(*read_foreign(tmp_path / "theirs")), tmp_path / "ours", "huggingface")
    first, second = (transformers.MarianMTModel.from_pretrained(tmp_path / each) for each in ("theirs", "ours"))
    before, after = first.state_dict(), second.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in after)
    assert (tmp_path / "theirs" / "target.spm").read_bytes() == (tmp_path / "ours" / "target.spm").read_bytes()
    ids = [json.loads((tmp_path / each / "vocab.json").read_text()) for each in ("theirs", "ours")]
    assert ids[0] == ids[1]
    assert second.config.decoder_start_token_id == first.config.decoder_start_token_id


@pytest.mark.heavy
@pytest.mark.parametrize("fields", [{}, {"positions": "sinusoidal-concatenated", "decoder_start": "zero"},
                                    {"decoder_start": "eos", "share_embeddings": "none", "shared": False}])  # fmt: skip
def test_models_of_ours_compute_the_same_there(transformers, torch, fields, tmp_path):
    learned = learned_model(norm_epsilon=1e-5, **fields)
    write_foreign(learned, tmp_path / "model", "huggingface")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "model").eval()
    ours = Transformer(learned.model, seed=None)
    ours.load_parameters(learned.weights)
    ours.eval()
    vocab = json.loads((tmp_path / "model" / "vocab.json").read_text())
    own = tmp_path / "model" / "target_vocab.json"
    target_vocab = json.loads(own.read_text()) if own.exists() else vocab
    pieces = learned.vocabulary.source.pieces_by_id, learned.vocabulary.target.pieces_by_id
    source, target = np.array([[4, 6, 9, 3]]), np.array([[2, 5, 8, 7]])
    there = [vocab[pieces[0][i]] for i in source[0]], [target_vocab[pieces[1][i]] for i in target[0, 1:]]
    start = theirs.config.decoder_start_token_id
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor([there[0]]), decoder_input_ids=torch.tensor([[start, *there[1]]])
        ).logits
    places = [target_vocab[name] for name in pieces[1][3:]]
    np.testing.assert_allclose(ours(source, target).data[0, :, 3:], expected.numpy()[0][:, places], atol=1e-5)


@pytest.mark.heavy
def test_a_pickle_is_not_read_and_the_lines_that_convert_it_do(transformers, torch, tmp_path):
    model = make(transformers, torch, tmp_path)
    expected = read_huggingface(tmp_path).weights
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="is a pickle, which can run code when it is read; if you trust") as caught:
        read_huggingface(tmp_path)
    code = str(caught.value).partition("with PyTorch: ")[2]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    found = read_huggingface(tmp_path).weights
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


# ---- Without transformers ----------------------------------------------------------------------------------------


def with_options(folder, **options):
    write_foreign(learned_model(norm_epsilon=1e-5), folder, "huggingface")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    return folder


@pytest.mark.parametrize(
    ("option", "value"),
    [("model_type", "t5"), ("activation_function", "gelu_new"), ("normalize_before", True), ("encoder_layers", "six"),
     ("decoder_attention_heads", 2), ("decoder_ffn_dim", 7), ("eos_token_id", 10_000), ("add_final_layer_norm", True)],
)  # fmt: skip
def test_options_that_are_not_supported_are_named(option, value, tmp_path):
    folder = with_options(tmp_path / "model", **{option: value})
    with pytest.raises(ModelFileError, match=rf"config\.json: the option {option}={value!r} is not supported"):
        read_foreign(folder)


def test_forbidden_tokens_are_masked(tmp_path):
    folder = with_options(tmp_path / "model", bad_words_ids=[[5], [6, 7], "x"])
    found = read_foreign(folder)
    names = json.loads((folder / "vocab.json").read_text())
    forbidden = next(name for name, index in names.items() if index == 5)
    assert found.vocabulary.target.pieces_by_id.index(forbidden) in found.config.model.masked_tokens


def test_many_forbidden_tokens_are_not_searched_for_each_piece(tmp_path, monkeypatch):
    """A million of them, in a small file, would take hours."""

    class Never(list):
        def __contains__(self, index):
            raise AssertionError("the list is searched from its beginning")

    folder = with_options(tmp_path / "model")
    monkeypatch.setattr("additions.interchange.huggingface._forbidden", lambda *_: Never([5]))
    assert read_foreign(folder).config.model.masked_tokens


def test_more_layers_than_the_file_has_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"has no array model\.encoder\.layers\.2\."):
        read_foreign(with_options(tmp_path / "model", encoder_layers=150))


def test_damaged_configuration_is_one_sentence(tmp_path):
    folder = with_options(tmp_path / "model")
    for content in (b"{", b"[]", b"\xff", b"[" * 100_000):
        (folder / "config.json").write_bytes(content)
        with pytest.raises(ModelFileError, match=r"config\.json"):
            read_foreign(folder)


def test_a_run_is_no_foreign_model(tmp_path):
    assert not is_foreign(write_run(learned_model(), tmp_path / "run"))


# ---- The Hub -----------------------------------------------------------------------------------------------------


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("name", ["hf:", "hf:one", "hf:a/b/c", "hf:../../etc", "hf:a/..", "hf:-/b c", "hf:a/b@c/d"])
def test_names_that_are_none_are_refused_before_anything_is_asked(name):
    with pytest.raises(UserError, match="write hf:OWNER/NAME"):
        downloaded(name)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        UserError, match=r"run pip install huggingface_hub, or pip install '\.\[hub\]' in this project's directory"
    ):
        downloaded("hf:Helsinki-NLP/opus-mt-en-de")


class Hub(BaseHTTPRequestHandler):
    """The two kinds of requests of a download: facts of a model, and its files."""

    folder = None
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        type(self).asked.append(path)
        if path.startswith("/api/models/org/model") and "missing" not in path:
            files = sorted(self.folder.iterdir())
            if "/tree/" in path:  # newer clients list the files of a revision
                listed = [
                    {"type": "file", "path": each.name, "size": each.stat().st_size, "oid": "0"} for each in files
                ]
                return self.answer(json.dumps(listed).encode(), "application/json")
            siblings = [{"rfilename": each.name} for each in files]
            facts = {
                "id": "org/model",
                "sha": COMMIT,
                "private": False,
                "siblings": siblings,
                "tags": [],
                "downloads": 0,
            }
            return self.answer(json.dumps(facts).encode(), "application/json")
        name = path.rpartition("/")[2]
        if path == f"/org/model/resolve/{COMMIT}/{name}" and (self.folder / name).is_file():
            return self.answer((self.folder / name).read_bytes(), "application/octet-stream")
        self.send_error(404)

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: the extra `hub`")
    write_foreign(learned_model(norm_epsilon=1e-5), tmp_path / "model", "huggingface")
    (tmp_path / "model" / "training_script.py").write_text("raise SystemExit('executed')")
    Hub.folder, Hub.asked = tmp_path / "model", []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def run(arguments, tmp_path, endpoint):
    """A command in a process of its own: huggingface_hub reads its variables when it is imported."""
    local = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"}
    environment = {**os.environ, **local, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-m", "minitf", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.heavy
def test_model_of_the_hub_becomes_a_run(hub, tmp_path):
    done = run(["import", "hf:org/model", str(tmp_path / "run")], tmp_path, hub)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "checkpoints" / "step-00000000.safetensors").is_file()
    files = {path.rpartition("/")[2] for path in Hub.asked if "resolve" in path}
    assert {"config.json", "model.safetensors", "vocab.json"} <= files
    assert "training_script.py" not in files


@pytest.mark.heavy
def test_pickled_weights_are_never_downloaded(hub, tmp_path):
    (tmp_path / "model" / "pytorch_model.bin").write_bytes(b"not a pickle")
    (tmp_path / "model" / "model.safetensors").unlink()
    done = run(["import", "hf:org/model", str(tmp_path / "run")], tmp_path, hub)
    assert done.returncode == 2
    assert "org/model has no model.safetensors" in done.stderr
    assert not any(path.endswith("pytorch_model.bin") for path in Hub.asked if "resolve" in path)


@pytest.mark.heavy
def test_missing_model_is_one_sentence(hub, tmp_path):
    done = run(["import", "hf:org/missing", str(tmp_path / "run")], tmp_path, hub)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot download org/missing: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
