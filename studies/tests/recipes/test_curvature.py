"""studies/recipes/paper_claims/curvature.py: eigenvalues that are known, and a training that is train.py's."""

import numpy as np
import pytest

from minitf.app import train
from minitf.app.train import read_train_args
from minitf.run.start import start
from minitf.storage.checkpoints import load
from minitf.system.process import silent
from minitf.training.run import SingleProcess
from studies.tests.load_recipes import load_recipe

load_recipe("compared_layers")
load_recipe("train_fields")
load_recipe("resumable")
load_recipe("table_1")
load_recipe("paper_claims")
claims = load_recipe("claims")
curvature = claims.importlib.import_module("paper_claims.curvature")
runs = claims.importlib.import_module("paper_claims.runs")


@pytest.mark.parametrize("smallest", [-40.0, -1e-3], ids=["beside a larger negative one", "beside small ones"])
def test_the_largest_eigenvalue(smallest):
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    values = np.array([7.0, 5.0, *rng.uniform(-1e-3, 1.0, 47), smallest])
    matrix = q @ np.diag(values) @ q.T
    assert curvature.largest_eigenvalue(lambda v: matrix @ v, 50) == pytest.approx(7.0, rel=1e-8)


def test_a_matrix_with_few_eigenvalues_ends_early():
    assert curvature.largest_eigenvalue(lambda v: 3.0 * v, 5) == pytest.approx(3.0)


@pytest.mark.slow
def test_the_training_is_that_of_train_py(tmp_path, capsys):
    study = runs.Study(tmp_path, quick=True)
    flags = study.flags("base", 1)
    flags += ["--model.dropout", "0.1"]
    assert train.main([*flags, "--output", str(tmp_path / "trained")]) == 0
    path = tmp_path / "trained" / "checkpoints" / "step-00000004.safetensors"
    trained = load(path, "model.")[0]
    config = read_train_args([*flags, "--output", str(tmp_path / "here")]).config
    with start(config, SingleProcess(config), silent) as run:
        assert [*curvature.training(run, config.max_steps)] == [0, 1, 2, 3, 4]
        for name, parameter in run.model.named_parameters().items():
            np.testing.assert_array_equal(parameter.data, trained[name])
        found = curvature.measured(run, config.max_steps)
        assert found.loss < 8
        assert found.largest > 0
        assert found.limit > 0
