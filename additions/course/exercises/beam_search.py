"""Beam search with a length penalty

Keep the `beam` most probable unfinished hypotheses. In each step, extend all of them by every token and take the best
2 · beam of *all* these candidates, by their total log-probability. A candidate that ends with EOS is finished; the best
`beam` of the others go on. After `max_length` tokens, return the finished hypothesis with the largest

    score = log-probability / penalty(length)        penalty(length) = ((5 + length) / 6)^alpha

where the length counts EOS. A log-probability falls with every token, so that without a penalty short outputs win.

Shapes: log_probabilities(prefix) maps a tuple of tokens to an array [V], the log-probabilities of the next token
    -> (tokens without EOS, score)
Source: section 6.1 (beam 4, alpha 0.6); Wu et al. 2016, equation 14
"""

import numpy as np

from additions.course.expect import Wrong, true

EOS = 0


def beam_search(log_probabilities, beam, max_length, alpha=0.6):
    """The best finished hypothesis of at most max_length tokens, EOS included, and its score."""
    # solution
    alive, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        candidates = [
            ((*prefix, token), total + gained)
            for prefix, total in alive
            for token, gained in enumerate(log_probabilities(prefix))
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        alive = []
        for tokens, total in candidates[: 2 * beam]:
            if tokens[-1] == EOS:
                finished.append((tokens[:-1], total / ((5 + length) / 6) ** alpha))
            elif len(alive) < beam:
                alive.append((tokens, total))
    return max(finished, key=lambda hypothesis: hypothesis[1])
    # end


HINTS = (
    "Keep two lists: alive, of (prefix, total log-probability), which begins as [((), 0.0)], and finished, of (tokens, "
    "score).",
    "Collect the candidates of all prefixes in one list and sort it by the total; cutting each prefix's own candidates "
    "would keep bad prefixes alive.",
    "The total orders candidates of one length; only finished hypotheses, of different lengths, are compared by the "
    "score. Divide by ((5 + length) / 6) ** alpha, with EOS counted in length.",
)

TABLE = {  # prefix: probabilities of EOS, 1, 2
    (): (0.10, 0.50, 0.40),
    (1,): (0.10, 0.45, 0.45),
    (2,): (0.05, 0.05, 0.90),
    (2, 2): (0.85, 0.10, 0.05),
}


def _model(prefix):
    return np.log(np.array(TABLE.get(prefix, (0.5, 0.3, 0.2))))


def _score(total, length, alpha=0.6, *, more=0.0):
    return total / ((5 + length + more) / 6) ** alpha


def _compare(answer, model, beam, max_length, alpha, tokens, total, wrong):
    found = answer.beam_search(model, beam, max_length, alpha)
    if not isinstance(found, tuple) or len(found) != 2:
        raise Wrong(f"return the tokens and the score, found {found!r}")
    true(not found[1] > 0, f"the score is {found[1]:.4g}: add log-probabilities, which are not above 0")
    score = _score(total, len(tokens) + 1, alpha)
    if tuple(found[0]) != tokens:
        if tuple(found[0]) == (*tokens, EOS):
            raise Wrong("the tokens end with EOS; return them without it")
        raise Wrong(wrong.get(tuple(found[0]), f"the tokens are {found[0]}, expected {tokens}"))
    mistakes = {
        "your score is the log-probability itself, without the length penalty": total,
        "your score leaves EOS out of the length": _score(total, len(tokens) + 1, alpha, more=-1),
        "your score counts one token too many in the length": _score(total, len(tokens) + 1, alpha, more=1),
        "your score is divided by the length itself, not by ((5 + length) / 6)^alpha": total / (len(tokens) + 1),
        "your score is multiplied by the penalty, not divided": total * ((6 + len(tokens)) / 6) ** alpha,
    }
    for message, other in mistakes.items():
        true(abs(found[1] - other) > 1e-9 or abs(score - other) < 1e-9, f"the score: {message}")
    true(abs(found[1] - score) < 1e-9, f"the score is {found[1]:.6g}, expected {score:.6g}")


def check_greedy_is_not_enough(answer):
    """beam 2 finds what greedy search misses"""
    greedy = "only the most probable next token is followed, as in greedy search: keep `beam` hypotheses"
    _compare(answer, _model, 2, 4, 0.6, (2, 2), float(np.log(0.4 * 0.9 * 0.85)), {
        (1, 1): greedy, (1, 2): greedy, (1,): greedy, (1, 1, 1): greedy,
        (): "the first hypothesis that ends wins; go on to max_length, a longer one may score better",
    })  # fmt: skip


def check_length_penalty(answer):
    """a long output wins by the length penalty, a short one without"""
    table = {(): (0.30, 0.60, 0.10), (1,): (0.02, 0.97, 0.01), (1, 1): (0.02, 0.97, 0.01), (1, 1, 1): (0.49, 0.5, 0.01)}

    def model(prefix):
        return np.log(np.array(table.get(prefix, (0.4, 0.3, 0.3))))

    long = (1, 1, 1)
    total = float(np.log(0.6) + 2 * np.log(0.97) + np.log(0.49))
    short = "the short hypothesis wins: without the length penalty, every further token only costs probability"
    _compare(answer, model, 2, 4, 2.0, long, total, {(): short})
    ignored = "alpha=0 is no penalty: there, the short hypothesis wins; is `alpha` used?"
    _compare(answer, model, 2, 4, 0.0, (), float(np.log(0.30)), {long: ignored})


def check_all_candidates(answer):
    """the best candidates of all prefixes, not of each"""
    table = {(): (0.0, 0.6, 0.4), (1,): (0.0, 0.55, 0.45), (2,): (0.0, 0.99, 0.01)}
    ends = {(1, 1): 0.9, (1, 2): 0.1, (2, 1): 0.2}
    calls = []

    def model(prefix):
        calls.append(prefix)
        end = ends.get(prefix, 0.3)
        with np.errstate(divide="ignore"):
            return np.log(np.array(table.get(prefix, (end, (1 - end) / 2, (1 - end) / 2))))

    answer.beam_search(model, 2, 3)
    second = {prefix for prefix in calls if len(prefix) == 2}
    true((1, 1) not in second or len(second) <= 2, f"{len(second)} hypotheses are extended in step 3, the beam is 2")
    true(
        second == {(2, 1), (1, 1)},
        f"step 3 extends {sorted(second)}, expected [(1, 1), (2, 1)]: the `beam` best of all candidates go on",
    )


def check_eos_is_the_end(answer):
    """a finished hypothesis is not extended"""
    calls = []

    def model(prefix):
        calls.append(prefix)
        return np.log(np.array([0.4, 0.3, 0.2, 0.1]))

    answer.beam_search(model, 2, 4)
    true(
        not any(EOS in prefix for prefix in calls),
        "a hypothesis that ended with EOS is extended; it is finished: keep it aside",
    )
    true(max(map(len, calls)) <= 3, "a hypothesis of max_length tokens is extended")
    places = {prefix for prefix in calls if len(prefix) == 1}
    true(
        len(places) == 2,
        "the beam shrinks as hypotheses finish: look at 2 · beam candidates, and let `beam` that have not ended go on",
    )


def check_number_of_candidates(answer):
    """the best 2 · beam candidates, and no more"""
    table = {(): (0.2, 0.45, 0.35), (1,): (0.3, 0.6, 0.1)}
    _compare(answer, lambda prefix: np.log(np.array(table[prefix])), 1, 2, 0.6, (1,), float(np.log(0.45 * 0.3)), {
        (): "a candidate finishes that is not among the best 2 · beam; look at these alone",
    })  # fmt: skip
