"""Around the loop: validation, the log's intervals, the clock, and what is said about a run that has diverged."""

import math
import time

import numpy as np
import pytest

from minitf.config import PRESETS
from minitf.config.special_tokens import PAD
from minitf.data.batches import Batches, collate
from minitf.data.prepared import PreparedCorpus
from minitf.errors import UserError
from minitf.storage.checkpoint import CheckpointStore
from minitf.storage.log import RunLog, read_log
from minitf.training import run as training
from minitf.training.run import Clock, Run, TrainingError, mean_nll, validate
from minitf.training.state import Interval, TrainState

REPLACE = training.replace
CONFIG = REPLACE(
    PRESETS["tiny"],
    valid_every=5,
    save_every=4,
    keep_checkpoints=5,
    model=REPLACE(PRESETS["tiny"].model, layers=1, d_model=8, d_ff=16, heads=2, dropout=0.3, vocab_size=12),
)
SENTENCES = [[5, 6, 7], [8], [9, 10], [11, 5, 5, 6]]


class Folder:
    """What of a run's directory is needed."""

    def __init__(self, path):
        self.path = path
        self.vocabulary_path = path / "vocabulary.model"


@pytest.fixture
def run(tmp_path):
    corpus = PreparedCorpus.from_ids(SENTENCES, SENTENCES[::-1])
    model = training.Transformer(CONFIG.model, seed=1)
    with RunLog(tmp_path / "log.jsonl") as log:
        yield Run(
            config=CONFIG,
            directory=Folder(tmp_path),
            texts=training.Texts((tmp_path / "a", tmp_path / "b"), None, None),
            vocabulary=None,
            train=Batches(corpus, 16),
            valid=Batches(corpus, 16, shuffle=False),
            model=model,
            optimizer=training.Adam(model.named_parameters(), CONFIG.optimizer),
            state=TrainState(vocabulary="w", valid_corpus="v"),
            checkpoints=CheckpointStore(tmp_path / "checkpoints", keep=5),
            log=log,
        )


@pytest.fixture
def said():
    return []


# ---- Validation --------------------------------------------------------------------------------------------------


def test_mean_nll_is_that_of_each_sentence_alone(run):
    """One sentence at a time, without padding, batches and dropout."""
    total, tokens = 0.0, 0
    run.model.eval()
    for source, target in zip(SENTENCES, SENTENCES[::-1], strict=True):
        batch = collate([source], [target])
        logits = run.model(batch.source, batch.target_in).numpy()[0].astype(np.float64)
        log_total = np.log(np.exp(logits).sum(axis=1))
        total += float((log_total - logits[np.arange(len(target) + 1), batch.target_out[0]]).sum())
        tokens += len(target) + 1
    run.model.train()
    assert mean_nll(run.model, run.valid) == pytest.approx(total / tokens, rel=1e-6)
    assert run.model.training  # and it is left as a step needs it


class Stop:
    """A request that comes when it has been looked at so often."""

    def __init__(self, after):
        self.left = after

    def __bool__(self):
        self.left -= 1
        return self.left < 0


def test_an_interrupted_validation_changes_nothing_but_the_clock(run, said):
    assert run.valid.per_epoch > 1
    run.state.step = 5
    before = run.state.to_plain()
    validate(run, Stop(after=1), said.append)
    after = run.state.to_plain()
    for plain in (before, after):
        plain.pop("elapsed_s")
        plain["interval"].pop("start_s")
    assert after == before
    assert (said, read_log(run.log.path)) == ([], [])
    assert training.owes_validation(run)
    assert run.model.training


def test_best_loss_and_patience(run, said, monkeypatch):
    losses = [3.0, 2.0, 2.0, math.nan, 2.5, 1.5, math.inf]
    monkeypatch.setattr(training, "mean_nll", lambda *_: losses[run.state.step - 1])
    run.config = REPLACE(CONFIG, patience=3)
    seen = []
    for run.state.step in range(1, 8):
        validate(run, Stop(after=99), said.append)
        validate(run, Stop(after=99), said.append)  # a step is validated once
        seen.append((run.state.best_loss, run.state.validations_since_best, training.out_of_patience(run)))
    assert seen == [
        (3.0, 0, False),
        (2.0, 0, False),
        (2.0, 1, False),
        (2.0, 2, False),
        (2.0, 3, True),
        (1.5, 0, False),
        (1.5, 1, False),
    ]
    records = read_log(run.log.path)
    assert [float(record["valid_loss"]) for record in records] == pytest.approx(losses, nan_ok=True)
    assert records[1]["valid_perplexity"] == pytest.approx(math.exp(2))
    assert said[1] == "step 2: validation loss 2.0000, perplexity 7.389"
    assert len(said) == 7


def test_when_a_validation_is_due(run):
    due = []
    for run.state.step in range(12):
        due.append(training.owes_validation(run))
    assert [step for step, is_due in enumerate(due) if is_due] == [5, 10]
    run.state.validated_step = run.state.step = 10
    assert not training.owes_validation(run)
    run.state.validated_step, run.valid = 5, None
    assert not training.owes_validation(run)


# ---- Log and clock -----------------------------------------------------------------------------------------------


def test_a_line_of_the_log_begins_a_new_interval(run):
    run.state.step, run.state.elapsed_s, run.state.skipped_updates = 150, 9.0, 2
    run.state.interval = Interval(loss=6.0, nll=3.0, target_tokens=3, source_tokens=1, slots=8, start_s=8.0)
    record = training.log_interval(run)
    assert read_log(run.log.path) == [record]
    assert (record["step"], record["loss"], record["skipped_updates"]) == (150, 2.0, 2)
    assert record["learning_rate"] == pytest.approx(0.003)  # the top of the tiny preset's curve
    assert run.state.interval == Interval(start_s=9.0)


def test_the_clock_counts_all_resumptions(run):
    run.state.elapsed_s = 100.0
    run.config = REPLACE(CONFIG, max_minutes=2)
    clock = Clock(run)
    first = clock.elapsed_s
    assert 100 <= first < 101
    time.sleep(0.01)
    assert clock.elapsed_s >= first + 0.01
    assert not clock.is_up
    assert clock.remaining_s(step=50, max_steps=100) == pytest.approx(20, abs=1)  # by the limit
    assert clock.remaining_s(step=95, max_steps=100) == pytest.approx(100 / 19, abs=1)  # by the pace
    run.state.elapsed_s = 120.0
    assert Clock(run).is_up
    run.config = REPLACE(CONFIG, max_minutes=None)
    assert not Clock(run).is_up
    assert Clock(run).remaining_s(step=0, max_steps=9) == math.inf


def test_what_ends_a_run(run):
    clock = Clock(run)
    assert not training.finished(run, clock)
    run.state.step = CONFIG.max_steps
    assert training.finished(run, clock)
    run.state.step = CONFIG.max_steps + 1  # resumed with fewer steps
    assert training.finished(run, clock)
    run.config = REPLACE(CONFIG, max_minutes=1e-9)
    run.state.step = 0
    assert not training.finished(run, Clock(run))  # one step is made, or there were nothing to keep
    run.state.step = 1
    assert training.finished(run, Clock(run))


# ---- Divergence --------------------------------------------------------------------------------------------------


def diverging(run):
    batch = run.train.batch(0, 0)
    return Interval(loss=math.nan, nll=1.0, target_tokens=2, gradient_norm=1.0), [batch]


def test_the_op_that_first_gave_no_number_is_named(run, said):
    run.model.output_matrix.data[...] = 1e30
    with np.errstate(all="ignore"), pytest.raises(TrainingError) as caught:
        training.leave_out(run, 3, *diverging(run), said.append)
    message = str(caught.value)
    assert message.startswith("training diverged: step 3 has loss nan, gradient norm 1: the forward pass of ")
    assert "minitf/" in message
    assert caught.value.exit_status == 1
    assert (run.state.skipped_updates, said) == (0, [])


def test_numbers_that_only_overflow_together(run, said):
    with pytest.raises(TrainingError, match="each number is finite by itself, but their sum is not"):
        training.leave_out(run, 3, *diverging(run), said.append)


def test_the_repetition_draws_the_same_dropout(run, monkeypatch):
    """Else what it looks at is another computation."""
    masks = []
    next_mask = training.random.next_mask

    def spy(*arguments):
        masks.append(next_mask(*arguments))
        return masks[-1]

    monkeypatch.setattr(training.random, "next_mask", spy)
    training.random.manual_seed(7)
    batches = [run.train.batch(0, 0), REPLACE(run.train.part(0, 1, 1, 2), number=1)]  # the second half of the second
    for batch in batches:
        training.random.begin_step(3, batch.number, batch.first_row)
        training.batch_loss(run.model, batch, 0.1)[0].backward()
    first = len(masks)
    training.origin(run, 3, batches)
    assert len(masks) == 2 * first > 0
    assert masks[:first] == masks[first:]


def test_skipping_counts(run, said):
    run.config = REPLACE(CONFIG, on_divergence="skip")
    for _ in range(training.MAX_SKIPPED_IN_A_ROW):
        training.leave_out(run, 3, *diverging(run), said.append)
    assert run.state.skipped_updates == run.state.skipped_in_a_row == len(said) == 10
    assert said[1] == "step 3 has loss nan, gradient norm 1: left out, 2 in all"
    with pytest.raises(
        TrainingError, match=r"as had 10 steps before: .*; there is no good checkpoint; start again with"
    ):
        training.leave_out(run, 3, *diverging(run), said.append)


def test_advice_names_the_last_good_checkpoint(run):
    run.state.step = 4
    training.save(run)
    run.state.step, run.state.skipped_in_a_row = 6, 1
    training.save(run)
    advice = training.advice(run)
    assert f"the last good checkpoint is {run.checkpoints.path(4)};" in advice
    assert f"--resume {run.directory.path} --on-divergence skip" in advice
    assert "--optimizer.peak-learning-rate" in advice
    run.config = REPLACE(CONFIG, optimizer=REPLACE(CONFIG.optimizer, peak_learning_rate=None), on_divergence="skip")
    assert "--optimizer.learning-rate-scale" in training.advice(run)
    assert "--on-divergence" not in training.advice(run)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["weight", "m", "v"])
def test_a_checkpoint_without_sound_numbers_is_not_written(run, value, part):
    run.state.step = 4
    name, parameter = list(run.model.named_parameters().items())[-1]
    array = parameter.data if part == "weight" else getattr(run.optimizer, part)[name]
    array.reshape(-1)[-1] = value
    with pytest.raises(TrainingError, match=f"after step 4, .*{name} is not finite; there is no good checkpoint"):
        training.save(run)
    assert run.checkpoints.steps() == []


# ---- Save and restore --------------------------------------------------------------------------------------------


def test_everything_is_restored(run, said):
    rng = np.random.default_rng(0)
    for name, parameter in run.model.named_parameters().items():
        parameter.data[...] = rng.normal(size=parameter.shape)
        run.optimizer.m[name][...] = rng.normal(size=parameter.shape)
        run.optimizer.v[name][...] = rng.random(parameter.shape)
    next(run.train)
    run.log.append({"step": 1})
    run.state.step, run.state.skipped_updates, run.state.best_loss = 6, 2, 1.5
    training.save(run)
    saved = run.state.to_plain()
    arrays = {name: p.data.copy() for name, p in run.model.named_parameters().items()}
    arrays |= {name: moment.copy() for name, moment in run.optimizer.state_arrays().items()}
    assert saved["on_schedule"] is False  # every 4 steps

    run.log.append({"step": "lost"})
    for parameter in run.model.parameters():
        parameter.data[...] = 0
    for moment in run.optimizer.state_arrays().values():
        moment[...] = 0
    next(run.train)
    run.state = TrainState(vocabulary="w", valid_corpus="v")
    training.restore(run, said.append)
    assert run.state.to_plain() == saved
    assert run.optimizer.step_count == 4  # Adam never saw the two that were left out
    assert (run.train.epoch, run.train.position) == (saved["data"]["epoch"], saved["data"]["position"])
    assert read_log(run.log.path) == [{"step": 1}]
    now = {name: p.data for name, p in run.model.named_parameters().items()} | run.optimizer.state_arrays()
    assert all((now[name] == array).all() for name, array in arrays.items())
    assert said == ["resumed after step 6"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"vocabulary": "other"}, "vocabulary.model has changed"), ({"valid_corpus": "other"}, "the validation text")],
)
def test_what_does_not_belong_to_the_run(run, said, change, message):
    run.state = TrainState(**{"vocabulary": "w", "valid_corpus": "v", "step": 4, **change})
    training.save(run)
    run.state = TrainState(vocabulary="w", valid_corpus="v")
    with pytest.raises(UserError, match=f"the last checkpoint of .* does not fit this run: .*{message}"):
        training.restore(run, said.append)
    assert run.state.step == 0


def test_a_checkpoint_of_something_else(run, said):
    """Whole, but not of a training run: as an average, or from another program."""
    run.checkpoints.save(3, {"model.a": np.zeros(2)}, {"note": "mine"})
    with pytest.raises(UserError, match="does not fit this run: the training state does not fit this version"):
        training.restore(run, said.append)


def test_the_loss_of_a_batch(run):
    run.model.eval()
    batch = run.train.batch(0, 0)
    smooth, nll = training.batch_loss(run.model, batch, 0.1)
    plain, same = training.batch_loss(run.model, batch, 0.0)
    logits = run.model(batch.source, batch.target_in).numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    real = batch.target_out != PAD
    expected = -np.take_along_axis(log_p, batch.target_out[..., None], -1)[..., 0][real].sum()
    uniform = -log_p.mean(-1)[real].sum()
    assert nll.item() == same.item() == plain.item() == pytest.approx(expected, rel=1e-5)
    assert smooth.item() == pytest.approx(0.9 * expected + 0.1 * uniform, rel=1e-5)
