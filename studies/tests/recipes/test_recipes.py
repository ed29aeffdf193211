"""Recipes run, and name presets and options that exist."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from autograd.fast import available_cores
from minitf.app import train
from minitf.app.train import read_train_args
from minitf.config.presets import NAMED
from minitf.data.text import read_lines
from minitf.errors import UserError
from minitf.evaluation.metrics import bleu
from minitf.storage.checkpoints import Checkpoints, load
from minitf.storage.run_directory import RunDirectory, load_config
from minitf.system.process import run_command
from minitf.training import loop
from minitf.training.state import perplexity
from minitf.translation.translator import Translator
from studies.benchmarks.side_by_side import machine
from studies.tests.load_recipes import RECIPES, load_recipe
from tests.helpers.runs import FLAGS, MULTI30K, write_corpus

pytestmark = pytest.mark.heavy

load_recipe("compared_layers")
load_recipe("train_fields")
resumable = load_recipe("resumable")
seeds = load_recipe("seeds")
deep_encoder = load_recipe("deep_encoder")
load_recipe("paper_claims")
small_table_3 = load_recipe("small_table_3")
ROOT = RECIPES.parent.parent
BEGIN, END = "<!-- small_table_3.py -->", "<!-- end of small_table_3.py -->"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_a_recipe_is_one_command_for_train(path, tmp_path):
    """With a Python that prints its arguments in place of training."""
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\npwd\nfor word in "$@"; do echo "$word"; done\n')
    stub.chmod(0o755)
    ended = subprocess.run(
        ["sh", str(path), "--seed", "7", "--output", "a b"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHON": str(stub)}, cwd=tmp_path,
    )  # fmt: skip
    folder, program, *argv = ended.stdout.splitlines()
    assert (Path(folder) / program).samefile(ROOT / "train.py")
    config = read_train_args(argv).config
    assert (config.preset in NAMED, config.seed, config.output) == (True, 7, Path("a b"))
    assert config == replace(NAMED[config.preset].config, seed=7, output=Path("a b"))


def test_every_row_of_the_small_table_is_a_row_of_the_papers():
    assert {f"table3-{name}" for name in small_table_3.ROWS} == {name for name in NAMED if name.startswith("table3-")}


def scale(config):
    """What the rows vary, as multiples of the base's."""
    m = config.model
    return (
        m.layers, m.d_model, m.d_ff, m.head_d_k, m.head_d_v, m.dropout, config.optimizer.label_smoothing,
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in small_table_3.ROWS if name != "big"])
def test_a_row_changes_the_small_base_as_the_papers_changes_its_own(name):
    small = [read_train_args([*small_table_3.BASE, *small_table_3.ROWS[row]]).config for row in ("base", name)]
    paper = [NAMED[f"table3-{row}"].config for row in ("base", name)]
    ratios = [[b / a for a, b in zip(*map(scale, pair), strict=True)] for pair in (small, paper)]
    assert ratios[0] == pytest.approx(ratios[1])
    assert small[1].model.heads == paper[1].model.heads
    assert small[1].model.positions == paper[1].model.positions


def corpus_of_a_moment(folder, data):
    """A corpus in the folder `data`, and the flags of small_table_3.py for a run on it."""
    write_corpus(folder)
    data.mkdir()
    for split, stem in MULTI30K.items():
        for side in ("en", "de"):
            (folder / f"{split}.{side}").rename(data / f"{stem}.{side}")
    return [*FLAGS, "--data", "multi30k", "--data-dir", str(data), "--max-steps", "4", "--save-every", "2"]


def trained_here(monkeypatch):
    """Trains in this process; returns the list of calls."""
    calls = []

    def call_train(argv):
        calls.append(argv)
        return run_command(train.main, argv)

    monkeypatch.setattr(resumable, "call_train", call_train)
    return calls


def test_the_small_table_on_a_corpus_of_a_moment(tmp_path, capsys, monkeypatch):
    """Two rows are trained, interrupted in the middle, resumed, and not trained again."""
    calls, data = trained_here(monkeypatch), tmp_path / "data"
    page = tmp_path / "page.md"
    command = ["--seeds", "0", "--output", str(tmp_path / "out"), "--rows", "base", "d-smoothing-0.2"]
    command += [*corpus_of_a_moment(tmp_path, data), "--write", str(page)]
    assert run_command(small_table_3.main, command) == 2
    page.write_text(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n")
    assert "page.md" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    validate = loop.validate

    def fail_once(run, progress):
        if len(calls) == 2 and run.state.step == 4:
            raise KeyboardInterrupt
        validate(run, progress)

    monkeypatch.setattr(loop, "validate", fail_once)
    assert run_command(small_table_3.main, command) == 2
    assert "d-smoothing-0.2 ended with status 130" in capsys.readouterr().err
    assert run_command(small_table_3.main, command) == 0
    assert [call[0] for call in calls] == ["--preset", "--preset", "--resume"]
    text = (tmp_path / "out" / "table.md").read_text()
    assert capsys.readouterr().out.endswith(text)
    assert text.startswith("2 of 2 runs have ended.\n\n| row |")
    assert page.read_text() == f"Before.\n{BEGIN}\n\n{text}\n{END}\nAfter.\n"
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines()[4:6]]
    signature = resumable.final_score(tmp_path / "out" / "seed-0" / "base")["signature"]
    assert text.endswith(f"\n\nBLEU: `{signature}`. Runs:\n\n- 2 on {machine()}\n")
    assert [row[0] for row in rows] == ["base", "d-smoothing-0.2"]
    assert [row[3] for row in rows] == ["4", "4"]
    assert rows[1][10:] == ["", "5.47", "25.7", "-0.1", "PPL ?; BLEU ?"]  # 25.7 - 25.8 in the paper
    assert all(float(row[4]) > 1 for row in rows)
    for row in rows:
        run = RunDirectory.open(tmp_path / "out" / "seed-0" / row[0])
        store = Checkpoints(run.checkpoints_path)
        _, best = load(store.best_path(store.steps("best")[-1]))
        assert row[4] == f"{perplexity(best['valid_loss']):.2f}"
        translated = Translator.load(run.path, weights="best", warn=lambda message: None).translate(
            list(read_lines(data / "val.en"))
        )
        assert row[6] == f"{bleu(translated, list(read_lines(data / 'val.de')), tokenize='none').score:.2f}"
        parameters = Translator.load(run.path).model.parameter_count()
        assert row[2] == f"{parameters:,}"
    assert run_command(small_table_3.main, command) == 0
    assert len(calls) == 3
    assert run_command(small_table_3.main, [*command, "--seeds", "0", "1"]) == 0  # the rows of seed 0 are there
    assert [Path(call[-1]).parent.name for call in calls[3:]] == ["seed-1"] * 2
    assert [load_config(tmp_path / "out" / f"seed-{seed}" / "base" / "config.json").seed for seed in (0, 1)] == [0, 1]
    capsys.readouterr()
    assert run_command(small_table_3.main, [*command, "--max-steps", "6"]) == 2
    assert "seed-0/base was trained with max_steps 4 and not 6; give the same flags, another --output, or delete" in (
        capsys.readouterr().err
    )
    assert len(calls) == 5


def test_a_row_with_a_record_is_not_trained_again(tmp_path, capsys, monkeypatch):
    """On a machine with nothing but the records: the same page; then one row more, and one of other flags or texts."""
    calls, data, records = trained_here(monkeypatch), tmp_path / "data", tmp_path / "docs" / "records.json"
    flags = [*corpus_of_a_moment(tmp_path, data), "--seeds", "0", "--records", str(records)]
    here, elsewhere = ([*flags, "--output", str(tmp_path / name)] for name in ("here", "elsewhere"))
    assert run_command(small_table_3.main, [*here, "--rows", "d-smoothing-0.2", "base"]) == 0
    found = json.loads(records.read_text())
    assert list(found) == ["seed-0/base", "seed-0/d-smoothing-0.2"]  # in the order of the table
    base, final = found["seed-0/base"], resumable.final_score(tmp_path / "here/seed-0/base")
    expected = {"name": "base", "seed": 0, "steps": 4, "best_step": 4, "machine": machine()}
    expected |= {name: final[name] for name in ("bleu", "signature")}
    assert base == {**base, **expected}
    assert "--max-steps 4" in base["flags"]
    assert str(tmp_path) not in records.read_text()  # no place, where it need not be
    page = (tmp_path / "here/table.md").read_text()
    data.rename(tmp_path / "away")
    assert run_command(small_table_3.main, [*elsewhere, "--rows", "d-smoothing-0.2", "base", "--threads", "2"]) == 0
    assert (tmp_path / "elsewhere/table.md").read_text() == page
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["table.md"]
    assert len(calls) == 2
    (tmp_path / "away").rename(data)
    more = [*elsewhere, "--rows", "base", "d-smoothing-0.2", "big"]
    assert run_command(small_table_3.main, more) == 0
    assert [Path(call[-1]).name for call in calls[2:]] == ["big"]
    assert list(json.loads(records.read_text())) == ["seed-0/base", "seed-0/d-smoothing-0.2", "seed-0/big"]
    before = records.read_text()
    capsys.readouterr()
    assert run_command(small_table_3.main, [*more, "--max-steps", "6", "--model.heads", "4"]) == 2
    said = capsys.readouterr().err
    assert f"{records}: seed-0/base was trained with max_steps 4 and not 6, model.heads 2 and not 4; give the" in said
    assert "another --records, or delete this record, to train it again" in said
    with (data / "val.de").open("a") as file:
        file.write("Haus\n")
    with (data / "val.en").open("a") as file:
        file.write("house\n")
    assert run_command(small_table_3.main, [*elsewhere, "--rows", "base", "a-heads-1"]) == 2
    assert "is of other texts than --data multi30k; give its texts, or another --records" in capsys.readouterr().err
    assert run_command(small_table_3.main, [*elsewhere, "--pairs", "0"]) == 2
    assert "--pairs is 0, but must be at least 1" in capsys.readouterr().err
    assert run_command(small_table_3.main, [*more, "--pairs", "9"]) == 2
    assert f"{records}: seed-0/base was trained on 6000 pairs and not 9; give another --rec" in capsys.readouterr().err
    assert run_command(small_table_3.main, [*elsewhere, "--rows", "a-heads-1", "--pairs", "9"]) == 2
    assert "train.source is not the first 9 lines of" in capsys.readouterr().err
    assert len(calls) == 3
    assert records.read_text() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: "{", "Expecting property name"),
        (lambda found: found.update({"seed-1/base": 3}), "seed-1/base is 3, not an object"),
        (lambda found: found["seed-1/base"].pop("bleu"), "the key 'bleu' is missing in seed-1/base"),
        (
            lambda found: found["seed-1/base"].update(bleu="30"),
            "bleu of seed-1/base is '30', which is not of the type f",
        ),
        (lambda found: found["seed-1/base"].update(seed=2), "seed-1/base holds the record of seed-2/base"),
        (lambda found: found["seed-1/base"].update(flags="--steps 3"), "--steps"),
    ],
)
def test_a_broken_file_of_records_is_refused(change, said, tmp_path, capsys, monkeypatch):
    calls, path = trained_here(monkeypatch), tmp_path / "records.json"
    found = {"seed-1/base": asdict(result("base", 1, 8.0, 30.0))}
    text = change(found)
    path.write_text(text if isinstance(text, str) else json.dumps(found))
    before = path.read_text()
    assert run_command(small_table_3.main, ["--output", str(tmp_path / "out"), "--records", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path} is not a file of records: " in error
    assert said in error
    assert "; restore its last version, or move it away to train all rows again" in error
    assert not calls
    assert path.read_text() == before


def test_the_table_among_the_results_is_that_of_its_records():
    """As of docs/claims.json: no figure is edited by hand."""
    docs = ROOT / "docs"
    results = list(small_table_3.read_records(docs / "small-table-3.json").values())
    text = (docs / "results.md").read_text("utf-8")
    assert text.partition(f"{BEGIN}\n\n")[2].partition(f"\n{END}")[0] == small_table_3.page(results, 60)


def result(name, seed, perplexity, bleu):
    figures = {"parameters": 1_000, "pairs": 9, "steps": 30, "best_step": 20, "perplexity": perplexity, "bleu": bleu}
    where = {"signature": "nrefs:1", "minutes": float(seed), "machine": "one", "flags": "--seed 1", "texts": "0"}
    return small_table_3.Result(name=name, seed=seed, **figures, **where)


def test_the_small_tables_figures_are_means_over_seeds():
    found = [result("base", 1, 8.0, 30.0), result("big", 1, 7.0, 33.0), result("base", 2, 9.0, 31.0)]
    lines = small_table_3.table([*found, result("big", 2, 7.9, 33.5)]).splitlines()
    assert len(lines) == 4
    assert lines[2] == (
        "| base | - | 1,000 | 30 | 8.50 ± 0.50 | +0.00 ± 0.00 | 30.50 ± 0.50 | +0.00 ± 0.00 | 30.00, 31.00 | 1.5 "
        "| 65 M | 4.92 | 25.8 | +0.0 |  |"
    )
    assert lines[3].endswith(
        "| 1,000 | 30 | 7.45 ± 0.45 | -1.05 ± 0.05 | 33.25 ± 0.25 | +2.75 ± 0.25 | 33.00, 33.50 | 1.5 | 213 M | 4.33 "
        "| 26.4 | +0.6 | PPL yes; BLEU within chance |"
    )
    one_seed = small_table_3.table(found).splitlines()[3]  # base under the same seed
    assert "| 7.00 | -1.00 | 33.00 | +3.00 | 33.00 |" in one_seed
    assert one_seed.endswith("| PPL ?; BLEU ? |")
    assert "| 7.00 |  | 33.00 |  | 33.00 |" in small_table_3.table(found[1:2])


@pytest.mark.parametrize(
    ("differences", "published", "said"),
    [([1, 1.1, 0.9], 0.5, "yes"), ([1, 1.1, 0.9], -0.5, "**no**"), ([1, 2, 3], 0.5, "within chance"), ([1], 1, "?")],
)
def test_a_sign_counts_where_the_interval_leaves_out_zero(differences, published, said):
    assert small_table_3.agreement(differences, published) == said


def test_scores_of_several_seeds(tmp_path, capsys, monkeypatch):
    flags = [*write_corpus(tmp_path), *FLAGS, "--max-steps", "1", "--set", "bleu_tokenize=char"]
    monkeypatch.setattr(resumable, "call_train", lambda argv: run_command(train.main, argv))
    assert run_command(seeds.main, ["--seeds", "3", "5", "--output", str(tmp_path / "out"), *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [resumable.final_score(tmp_path / "out" / f"seed-{seed}")["bleu"] for seed in (3, 5)]
    for seed, score, line in zip((3, 5), found, lines, strict=False):
        assert line.startswith(f"seed {seed}: BLEU {score:.2f} after 1 updates and ")
    assert lines[2] == f"mean of 2: {sum(found) / 2:.2f}, from {min(found):.2f} to {max(found):.2f}"
    configs = [load_config(tmp_path / "out" / f"seed-{seed}" / "config.json") for seed in (3, 5)]
    assert [config.seed for config in configs] == [3, 5]


def test_a_row_that_is_not_there(capsys):
    assert run_command(small_table_3.main, ["--rows", "a-heads-2"]) == 2
    assert "error: there is no row 'a-heads-2'; choose some of base, a-heads-1" in capsys.readouterr().err


@pytest.mark.slow
def test_a_deep_encoder_beside_equal_depths(tmp_path, capsys, monkeypatch):
    data, calls = write_corpus(tmp_path), []

    def train_here(argv):
        calls.append(argv)
        return run_command(train.main, argv)

    monkeypatch.setattr(resumable, "call_train", train_here)
    flags = [*data, *FLAGS, "--preset", "tiny", "--max-steps", "1", "--set", "bleu_tokenize=char"]
    command = ["--output", str(tmp_path / "out"), "--depths", "2+2", "3+1", *flags]
    text = tmp_path / "text"
    text.write_text("ein Baum\nein Haus\n")
    assert run_command(deep_encoder.main, [*command, "--input", str(text)]) == 0
    head, _, *rows = [re.split(r" *\| *", line)[1:-1] for line in capsys.readouterr().out.splitlines()[-4:]]
    assert head[3:] == ["greedy, batch 1", "greedy, batch 64", "beam 5, batch 1", "beam 5, batch 64"]
    for row, (encoder, decoder) in zip(rows, [(2, 2), (3, 1)], strict=True):
        run = tmp_path / "out" / row[0]
        model = load_config(run / "config.json").model
        assert (row[0], model.encoder_depth, model.decoder_depth) == (f"{encoder}+{decoder}", encoder, decoder)
        assert row[1] == f"{Translator.load(run, warn=lambda message: None).model.parameter_count():,}"
        assert row[2] == f"{resumable.final_score(run)['bleu']:.2f}"
        assert all(float(speed.replace(",", "")) > 0 for speed in row[3:])
    assert run_command(deep_encoder.main, command) == 0
    assert len(calls) == 2  # nothing is trained again
    with pytest.raises(SystemExit):
        deep_encoder.main([*command[:2], "--depths", "7-2"])
    assert "'7-2' is not a pair of depths such as 7+2" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", [small_table_3, seeds])
@pytest.mark.parametrize("flag", [["--seed", "3"], ["--seed=3"]])
def test_one_seed_among_the_flags_is_refused(recipe, flag, tmp_path, capsys):
    assert run_command(recipe.main, ["--output", str(tmp_path), *flag]) == 2
    assert "error: --seed is of one run; give --seeds" in capsys.readouterr().err


@pytest.mark.slow
def test_several_seeds_at_once(tmp_path, capsys):
    """In processes of their own, as in a terminal; what they come to is what they come to one by one."""
    flags = [
        *write_corpus(tmp_path),
        *FLAGS,
        "--max-steps",
        "1",
        "--set",
        "bleu_tokenize=char",
        "--seeds",
        "3",
        "5",
        "4",
    ]
    for jobs in (2, 1):
        assert run_command(seeds.main, ["--output", str(tmp_path / "together"), *flags, "--jobs", str(jobs)]) == 0
    first, second = (
        capture.split("mean of 3") for capture in re.split(r"(?<=\d)\n(?=seed 3)", capsys.readouterr().out)
    )
    assert first[0] == second[0]  # nothing was trained again
    for seed in (3, 4, 5):
        assert "held-out BLEU" in (tmp_path / "together" / f"seed-{seed}.log").read_text()
        config = load_config(tmp_path / "together" / f"seed-{seed}" / "config.json")
        assert (config.seed, config.threads) == (seed, max(1, available_cores() // 2))


WAITS = """
import signal, sys, time
from pathlib import Path
output = Path(sys.argv[sys.argv.index("--output") + 1])

def stop(*_):
    assert not output.with_suffix(".stopped").exists(), "told twice"
    output.with_suffix(".stopped").touch()
    if output.name == "a":
        time.sleep(0.5)  # until the other has ended
    sys.exit(130)

signal.signal(signal.SIGINT, stop)
print("here")
output.with_suffix(".begun").touch()
if "fail" in sys.argv:
    while len(list(output.parent.glob("*.begun"))) < 2:
        time.sleep(0.01)
    sys.exit("no disk")
time.sleep(60)
sys.exit("nobody has stopped it")
"""


@pytest.mark.parametrize("reason", ["failure", "interrupt", "termination"])
def test_several_at_once_are_stopped_together(reason, tmp_path, monkeypatch, capsys):
    """One fails, or Ctrl-C, or kill: those that run save and end, and nothing else is started."""
    program = tmp_path / "waits.py"
    program.write_text(WAITS)
    monkeypatch.setattr(resumable, "PROGRAM", program)
    runs = {tmp_path / "a": [], tmp_path / "b": ["fail"] if reason == "failure" else [], tmp_path / "c": []}
    if reason != "failure":
        number = signal.SIGINT if reason == "interrupt" else signal.SIGTERM

        def stop():
            while len(list(tmp_path.glob("*.begun"))) < 2:
                time.sleep(0.01)
            os.kill(os.getpid(), number)

        threading.Thread(target=stop).start()
    begun = time.monotonic()
    status = run_command(lambda argv: list(resumable.train_all(runs, 2)) and None, [])
    assert time.monotonic() - begun < 30
    assert status == {"failure": 2, "interrupt": 130, "termination": 143}[reason]
    assert not (tmp_path / "c.begun").exists()
    assert (tmp_path / "a.stopped").exists()
    assert "told twice" not in (tmp_path / "a.log").read_text()
    said = capsys.readouterr().err
    assert f"{tmp_path / 'a'}: training; what it says is in {tmp_path / 'a.log'}" in said
    if reason == "failure":
        assert f"{tmp_path / 'b'}: status 1; the reason is at the end of {tmp_path / 'b.log'}" in said
        assert f"error: training {tmp_path / 'b'} ended with status 1" in said
        assert (tmp_path / "b.log").read_text().endswith("no disk\n")


@pytest.mark.parametrize(("in_order", "expected"), [(True, ["a", "b"]), (False, ["b", "a"])])
def test_of_several_at_once_each_is_yielded_as_it_is_done(in_order, expected, tmp_path, monkeypatch):
    program = tmp_path / "waits.py"
    program.write_text(WAITS_FOR_THE_OTHER)
    monkeypatch.setattr(resumable, "PROGRAM", program)
    runs = {tmp_path / "a": ["b.ended" if in_order else "b.yielded"], tmp_path / "b": []}
    yielded = []
    for run in resumable.train_all(runs, 2, in_order=in_order):
        yielded.append(run.name)
        (tmp_path / f"{run.name}.yielded").touch()
    assert yielded == expected


WAITS_FOR_THE_OTHER = """
import sys, time
from pathlib import Path
output = Path(sys.argv[sys.argv.index("--output") + 1])
output.with_suffix(".ended").touch()
while output.name == "a" and not output.with_name(sys.argv[1]).exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize(("own", "expected"), [([], 3), (["--threads", "5"], 5), (["--threads=5"], 5)])
def test_several_at_once_share_the_cores_unless_told_otherwise(own, expected, tmp_path, monkeypatch):
    program = tmp_path / "says.py"
    program.write_text("import sys\nprint(*sys.argv[1:])\n")
    monkeypatch.setattr(resumable, "PROGRAM", program)
    monkeypatch.setattr(resumable, "available_cores", lambda: 7)
    runs = {tmp_path / "a": own, tmp_path / "b": own}
    assert list(resumable.train_all(runs, 2)) == list(runs)
    said = (tmp_path / "a.log").read_text().replace("=", " ").split()
    assert said == ["--threads", str(expected), "--output", str(tmp_path / "a")]


def test_no_jobs():
    with pytest.raises(UserError, match="jobs=0 would train nothing"):
        list(resumable.train_all({}, 0))
