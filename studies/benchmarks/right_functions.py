"""Right derivatives: NumPy's functions, and those that SciPy, statsmodels and scikit-learn offer, each a false alarm if
it is flagged.

    python studies/benchmarks/right_functions.py

Libraries that are not installed are left out, and said so.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autograd.gradcheck import (
    GradcheckError,
    GradcheckWarning,
    check_derivatives,
    check_elementwise,
    check_jvp,
    from_vjp,
    gradcheck,
)

Case = tuple[str, Callable[[], bool]]
REAL, POSITIVE = np.linspace(-4.3, 4.4, 30), np.linspace(0.21, 6.3, 30)
INSIDE = np.linspace(0.03, 0.97, 30)
RNG = np.random.default_rng(3)

SLOPES: dict[str, tuple[Callable, Callable, np.ndarray]] = {
    "sin": (np.sin, np.cos, REAL), "cos": (np.cos, lambda x: -np.sin(x), REAL),
    "tan": (np.tan, lambda x: 1 / np.cos(x) ** 2, INSIDE), "exp": (np.exp, np.exp, REAL),
    "exp2": (np.exp2, lambda x: np.log(2) * np.exp2(x), REAL), "expm1": (np.expm1, np.exp, REAL),
    "log": (np.log, lambda x: 1 / x, POSITIVE), "log2": (np.log2, lambda x: 1 / x / np.log(2), POSITIVE),
    "log10": (np.log10, lambda x: 1 / x / np.log(10), POSITIVE), "log1p": (np.log1p, lambda x: 1 / (1 + x), POSITIVE),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), POSITIVE), "cbrt": (np.cbrt, lambda x: np.cbrt(x) / x / 3, POSITIVE),
    "square": (np.square, lambda x: 2 * x, REAL), "reciprocal": (np.reciprocal, lambda x: -1 / x**2, POSITIVE),
    "sinh": (np.sinh, np.cosh, REAL), "cosh": (np.cosh, np.sinh, REAL),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2, REAL), "arctan": (np.arctan, lambda x: 1 / (1 + x * x), REAL),
    "arcsin": (np.arcsin, lambda x: 1 / np.sqrt(1 - x * x), INSIDE),
    "arccos": (np.arccos, lambda x: -1 / np.sqrt(1 - x * x), INSIDE),
    "arcsinh": (np.arcsinh, lambda x: 1 / np.sqrt(1 + x * x), REAL),
    "arctanh": (np.arctanh, lambda x: 1 / (1 - x * x), INSIDE),
    "arccosh": (np.arccosh, lambda x: 1 / np.sqrt(x * x - 1), 1.1 + POSITIVE), "abs": (np.abs, np.sign, REAL),
    "negative": (np.negative, lambda x: 0 * x - 1, REAL), "power": (lambda x: x**2.5, lambda x: 2.5 * x**1.5, POSITIVE),
    "sinc": (np.sinc, lambda x: np.where(x == 0, 0, (np.cos(np.pi * x) - np.sinc(x)) / (x + (x == 0))), REAL),
    "softplus": (lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x)), REAL),
    "ReLU": (lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0), REAL),
    "clip": (lambda x: np.clip(x, -1, 1), lambda x: 1.0 * (abs(x) < 1), REAL),
}  # fmt: skip
SHAPES = {"a row": (4,), "a matrix": (3, 4), "three axes": (2, 3, 4)}


def numpy_functions() -> Iterator[Case]:
    """Each slope by `check_elementwise`, and as a backward pass of arrays of some shapes, and in forward mode."""
    for name, (f, df, points) in SLOPES.items():
        yield f"{name}, element-wise", lambda f=f, df=df, points=points: check_elementwise(f, df, at=points)
        for what, shape in SHAPES.items():
            x = RNG.choice(points, shape)
            yield (
                f"{name} of {what}",
                lambda f=f, df=df, x=x: gradcheck(from_vjp(lambda x: f(x), lambda g, x: g * df(x)), x),
            )
        yield f"{name}, forward mode", lambda f=f, df=df, x=x: check_jvp(f, lambda x, v: v * df(x), x[0])


def scipy_functions() -> Iterator[Case]:
    from scipy import interpolate, optimize, special, stats

    pi = np.sqrt(np.pi)
    listed: dict[str, tuple[Callable, Callable, np.ndarray]] = {
        "expit": (special.expit, lambda x: special.expit(x) * special.expit(-x), REAL),
        "log_expit": (special.log_expit, lambda x: special.expit(-x), REAL),
        "erf": (special.erf, lambda x: 2 / pi * np.exp(-x * x), REAL),
        "erfcx": (special.erfcx, lambda x: 2 * x * special.erfcx(x) - 2 / pi, POSITIVE),
        "erfinv": (special.erfinv, lambda y: pi / 2 * np.exp(special.erfinv(y) ** 2), INSIDE),
        "ndtr": (special.ndtr, stats.norm.pdf, REAL),
        "log_ndtr": (special.log_ndtr, lambda x: np.exp(stats.norm.logpdf(x) - special.log_ndtr(x)), REAL),
        "gammaln": (special.gammaln, special.digamma, POSITIVE),
        "digamma": (special.digamma, lambda x: special.polygamma(1, x), POSITIVE),
        "i0": (special.i0, special.i1, REAL), "j0": (special.j0, lambda x: -special.j1(x), REAL),
        "y0": (special.y0, lambda x: -special.y1(x), POSITIVE),
        "dawsn": (special.dawsn, lambda x: 1 - 2 * x * special.dawsn(x), REAL),
        "entr": (special.entr, lambda x: -np.log(x) - 1, POSITIVE),
        "exp1": (special.exp1, lambda x: -np.exp(-x) / x, POSITIVE), "logit": (special.logit, lambda p: 1 / p / (1 - p), INSIDE),
        "lambertw": (lambda x: special.lambertw(x).real, lambda x: (special.lambertw(x) / x / (1 + special.lambertw(x))).real, POSITIVE),
        "normal density": (stats.norm.pdf, lambda x: -x * stats.norm.pdf(x), REAL),
        "Student's density": (stats.t(5).logpdf, lambda x: -6 * x / (5 + x * x), REAL),
        "gamma distribution": (stats.gamma(2.5).cdf, stats.gamma(2.5).pdf, POSITIVE),
        "beta distribution": (stats.beta(2.5, 1.5).cdf, stats.beta(2.5, 1.5).pdf, INSIDE),
    }  # fmt: skip
    for name, (f, df, points) in listed.items():
        yield f"scipy: {name}", lambda f=f, df=df, points=points: check_elementwise(f, df, at=points)
    spline = interpolate.CubicSpline(np.arange(8), RNG.standard_normal(8))
    at = RNG.uniform(0.2, 6.8, 20)
    yield "scipy: a spline", lambda: check_elementwise(spline, spline.derivative(), at=at)
    yield (
        "scipy: Rosenbrock's function",
        lambda: check_derivatives(optimize.rosen, optimize.rosen_der, optimize.rosen_hess, at=RNG.standard_normal(5)),
    )


def statsmodels_functions() -> Iterator[Case]:
    import statsmodels.api as sm
    from statsmodels.genmod.families import links

    x = sm.add_constant(RNG.standard_normal((60, 2)))
    y = RNG.poisson(np.exp(x @ [0.2, 0.3, -0.2]))
    for name, model in {
        "Logit": sm.Logit(1 * (y > 0), x), "Probit": sm.Probit(1 * (y > 0), x), "Poisson": sm.Poisson(y, x),
    }.items():  # fmt: skip
        at = np.array([0.2, 0.3, -0.1])
        yield (
            f"statsmodels: {name}",
            lambda m=model, at=at: check_derivatives(m.loglike, m.score, m.hessian, at=at),
        )
    for name in ("Logit", "Probit", "CLogLog", "LogLog", "Cauchy"):
        link = getattr(links, name)()
        yield f"statsmodels: link {name}", lambda f=link: check_elementwise(f, f.deriv, f.deriv2, at=INSIDE)
    for name in ("Log", "InversePower", "Sqrt"):
        link = getattr(links, name)()
        yield f"statsmodels: link {name}", lambda f=link: check_elementwise(f, f.deriv, f.deriv2, at=POSITIVE)


def sklearn_functions() -> Iterator[Case]:
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.linear_model._huber import _huber_loss_and_gradient

    x, y = RNG.standard_normal((15, 2)), RNG.standard_normal(15)
    for name, kernel in {
        "RBF": kernels.RBF(1.3), "Matern": kernels.Matern(1.3, nu=2.5),
        "RationalQuadratic": kernels.RationalQuadratic(1.1, 0.8), "DotProduct": kernels.DotProduct(0.7),
    }.items():  # fmt: skip
        model = GaussianProcessRegressor(kernel + kernels.WhiteKernel(0.3), optimizer=None).fit(x, y)

        def likelihood(theta: Any, m: Any = model) -> Any:
            return m.log_marginal_likelihood(theta, eval_gradient=True)

        yield (
            f"sklearn: Gaussian process, {name}",
            lambda f=likelihood, at=model.kernel_.theta: check_derivatives(lambda t: f(t)[0], lambda t: f(t)[1], at=at),
        )

    def huber(w: Any) -> Any:
        return _huber_loss_and_gradient(w, x, y, 1.35, 0.1, np.ones(len(y)))

    yield (
        "sklearn: Huber's loss",
        lambda: check_derivatives(lambda w: huber(w)[0], lambda w: huber(w)[1], at=np.array([0.3, -0.2, 0.1, 1.2])),
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("error", GradcheckWarning)
    number, flagged = 0, []
    for cases in (numpy_functions, scipy_functions, statsmodels_functions, sklearn_functions):
        try:
            listed = list(cases())
        except ImportError as error:
            print(f"left out: {error}")
            continue
        for name, check in listed:
            number += 1
            try:
                check()
            except (GradcheckError, GradcheckWarning) as error:
                flagged.append(name)
                print(f"{name}: {error}")
    print(f"{len(flagged)} of {number} right derivatives flagged")
    if flagged:
        sys.exit(1)


if __name__ == "__main__":
    main()
