#!/bin/sh
# statsmodels 0.15.0: the martingale residuals of a Cox regression do not sum to 0, and the baseline cumulative hazard lags one event behind.
#
# Seen on 2026-11-28 with statsmodels 0.15.0, lifelines 0.30.3, NumPy 2.4.6, SciPy 1.17.1, pandas 2.3.3, Python 3.11.
# Expected before running: the residuals of PHReg are those of lifelines on the same data; each is the event (0 or 1) less the cumulative hazard
#   up to and including its time, and at the estimate they sum to 0.
# Why: the sum is an identity of Breslow's estimator, which both use (with and without ties; lifelines' sums are below 1e-12), and residuals are there to
#   be plotted around 0.
# Seen: the estimates agree.  baseline_cumulative_hazard is np.cumsum(h0) - h0: at each event time, the hazard of this event is left out, so
#   it begins with 0 where an event has taken place, and survival with 1.  Residuals of events are too large by their own share of that
#   hazard: they sum to 3.1 for 7 events, to 6.7 for 151, and to 58 for 155 with ties, and that of the first event is exactly 1.  A
#   subject that was censored before the first event has nan.  Predictions of pred_type "cumhaz" and "surv" have the same lag.
#   Its test compares the sum of absolute residuals with a number of its own.  Not among the issues found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 lifelines==0.30.3 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pandas as pd
from lifelines import CoxPHFitter
from statsmodels.duration.hazard_regression import PHReg

changed = False
rng = np.random.default_rng(0)
for name, n, ties in (("8 subjects", 8, False), ("200 subjects", 200, False), ("200 subjects, ties", 200, True)):
    x = rng.normal(size=n)
    t = rng.exponential(np.exp(-0.7 * x))
    t = np.ceil(3 * t) if ties else t
    event = (rng.random(n) < 0.7).astype(int)
    event[t <= np.sort(t)[1]] = 1  # the first times are events
    frame = pd.DataFrame({"t": t, "x": x, "event": event})
    fit = PHReg(t, x[:, None], status=event, ties="efron").fit()
    reference = CoxPHFitter().fit(frame, "t", "event")
    found = fit.martingale_residuals
    expected = reference.compute_residuals(frame, "martingale").sort_index()["martingale"].to_numpy()

    score = np.exp(x * fit.params[0])
    times = np.unique(t[event == 1])
    steps = np.array([event[t == u].sum() / score[t >= u].sum() for u in times])
    lagged, hazard = np.cumsum(steps) - steps, np.cumsum(steps)
    by_hand = event - np.array([steps[times <= u].sum() for u in t]) * score
    print(f"{name}: estimate {fit.params[0]:.4f}, lifelines {reference.params_['x']:.4f}; {event.sum()} events")
    print(f"  sum of residuals {found.sum():.4f}, of lifelines {expected.sum():.1g}, by hand {by_hand.sum():.1g}; first event {found[t.argmin()]:.4f}, {by_hand[t.argmin()]:.4f} by hand")
    baseline = fit.baseline_cumulative_hazard[0][1]
    print(f"  baseline cumulative hazard {baseline[:4].round(4)}, by hand {hazard[:4].round(4)}")
    changed |= not np.isclose(fit.params[0], reference.params_["x"], atol=1e-4)
    changed |= abs(expected.sum()) > 1e-6 or abs(by_hand.sum()) > 0.5 or not found.sum() > 1
    changed |= not ties and not np.allclose(expected, by_hand, atol=1e-3)
    predicted = np.asarray(fit.predict(pred_type="cumhaz").predicted_values)
    changed |= not np.allclose(predicted, np.array([lagged[np.searchsorted(times, u, "right") - 1] for u in t]) * score)
    changed |= not np.allclose(baseline[: len(times)], lagged) or found[t.argmin()] != 1

early = pd.DataFrame({"t": [0.5, 1.0, 2.0, 3.0, 4.0], "x": [0.1, 0.5, -0.3, 0.8, -0.2], "event": [0, 1, 1, 0, 1]})
fit = PHReg(early.t, early[["x"]], status=early.event).fit()
reference = CoxPHFitter().fit(early, "t", "event").compute_residuals(early, "martingale").sort_index()["martingale"].to_numpy()
print(f"censored before the first event: {fit.martingale_residuals.round(4)}, lifelines {reference.round(4)}")
changed |= np.isnan(fit.martingale_residuals).tolist() != [True] + [False] * 4 or np.isnan(reference).any()
raise SystemExit("The behaviour has changed." if changed else 0)
PY
