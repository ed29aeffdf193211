"""Write the files beside this one, with transformers, sentencepiece and CTranslate2 themselves.

Run from the root of the repository, in an environment that has them: python additions/interchange/tests/files/make.py
The folders hold a random model of 8 dimensions: as transformers saves it, and as CTranslate2's converter writes it in
each of these types. expected.json has the versions, the log-probabilities that CTranslate2 gives the target tokens,
computed in float32, and what searches of the two programs find with length penalties.
"""

import io
import json
import shutil
from pathlib import Path

import ctranslate2
import sentencepiece
import torch
import transformers

FILES = Path(__file__).resolve().parent
TYPES = ("float16", "int16", "int8", "int8_float16")
WORDS = ("a", "ab", "ba", "bab", "abba", "c", "ca", "cab")
TRIED = [("a ba cab", "c ab"), ("abba", "ba ba ba cab a"), ("cab ab c c ba", "abba")]


def write_huggingface(folder: Path) -> None:
    """A model as `save_pretrained` writes it, with search settings that are not the defaults."""
    folder.mkdir()
    sentences = [f"{one} {two} {three}" for one in WORDS for two in WORDS for three in WORDS]
    for side in ("source", "target"):
        written = io.BytesIO()  # with a name of files in its place, the model would contain that
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=written, model_type="bpe", vocab_size=16,
            normalization_rule_name="identity", minloglevel=2,
        )  # fmt: skip
        (folder / f"{side}.spm").write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    pieces = ["</s>", "<unk>", *processor.id_to_piece(list(range(3, len(processor)))), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=len(pieces), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12, activation_function="swish",
        scale_embedding=True, pad_token_id=len(pieces) - 1, decoder_start_token_id=len(pieces) - 1, eos_token_id=0,
        forced_eos_token_id=0, max_position_embeddings=24, init_std=0.5,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, [0, -1]] = torch.tensor([7.5, 0.0])  # translations end after a few tokens
    model.generation_config = transformers.GenerationConfig(
        num_beams=6, max_length=24, length_penalty=0.8, bad_words_ids=[[len(pieces) - 1]],
        decoder_start_token_id=len(pieces) - 1, eos_token_id=0, pad_token_id=len(pieces) - 1, forced_eos_token_id=0,
    )  # fmt: skip
    model.save_pretrained(folder)


def searched_by_huggingface(line: str, penalty: float) -> dict:
    """The best translation, the log-probability of each token, and the score that orders translations."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(FILES / "huggingface")
    model = transformers.MarianMTModel.from_pretrained(FILES / "huggingface")
    source = tokenizer(line, return_tensors="pt").input_ids
    how = {"length_penalty": penalty, "return_dict_in_generate": True, "output_scores": True}
    found = model.generate(source, num_return_sequences=2, **how)
    ids = found.sequences[1].tolist()  # the best one is empty
    ids = ids[: ids.index(0) + 1]
    with torch.no_grad():
        logits = model(input_ids=source, decoder_input_ids=torch.tensor([ids[:-1]])).logits
    each = [row[index] for row, index in zip(logits.log_softmax(-1)[0].tolist(), ids[1:], strict=True)]
    return {"penalty": penalty, "log-probabilities": each, "score": found.sequences_scores[1].item()}


def searched_by_ctranslate2(source: list[str], penalty: float) -> dict:
    """The two best translations, and their scores."""
    translator = ctranslate2.Translator(str(FILES / "ctranslate2-float16"), compute_type="float32")
    how = {"beam_size": 4, "length_penalty": penalty, "num_hypotheses": 2, "return_scores": True}
    (found,) = translator.translate_batch([[*source, "</s>"]], min_decoding_length=0, max_decoding_length=24, **how)
    return {"source": source, "penalty": penalty, "translations": found.hypotheses, "scores": found.scores}


def main() -> None:
    """Write the folders and expected.json."""
    for old in FILES.glob("*/"):
        shutil.rmtree(old)
    write_huggingface(FILES / "huggingface")
    tokenizer = transformers.AutoTokenizer.from_pretrained(FILES / "huggingface")
    pairs = [[tokenizer.tokenize(line) for line in pair] for pair in TRIED]
    sources = [[*source, "</s>"] for source, _ in pairs]  # which transformers' tokenizer adds
    scores = {}
    for kind in TYPES:
        folder = FILES / f"ctranslate2-{kind}"
        ctranslate2.converters.TransformersConverter(str(FILES / "huggingface")).convert(folder, quantization=kind)
        translator = ctranslate2.Translator(str(folder), compute_type="float32")
        found = translator.score_batch(sources, [target for _, target in pairs])
        scores[kind] = [each.log_probs for each in found]
    searches = {
        "huggingface": [searched_by_huggingface(line, each) for line, _ in TRIED for each in (0.8, 0.6, 0.0)],
        "ctranslate2": [searched_by_ctranslate2(line, each) for line, _ in pairs for each in (1.0, 0.6, 0.0)],
    }
    made = {each.__name__: each.__version__ for each in (ctranslate2, sentencepiece, torch, transformers)}
    found = {"made with": made, "pairs": pairs, "log-probabilities": scores, "searches": searches}
    (FILES / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
