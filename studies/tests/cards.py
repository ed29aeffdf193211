"""Hypotheses, references and their BLEU card."""

from studies.bleu_card import bleu_card

REFERENCES = [
    "Ein Mann in der U-Bahn-Station liest, was er mag.",
    "Zwei Hunde spielen im Schnee vor dem Haus.",
    "Die Frau sagt: „Komm her!“ und lacht laut.",
    "Das kostet 3,50 Euro und nicht mehr.",
] * 5
HYPOTHESES = [
    "Ein Mann in der U-Bahn-Haltestelle liest, was er will.",
    "zwei Hunde spielen im Schnee.",
    'Die Frau sagt: "Komm her!" und lacht sehr laut.',
    "Das kostet 3,50 Euro und nicht mehr.",
] * 5


def card():
    return {figure.name: figure for figure in bleu_card(HYPOTHESES, REFERENCES, resamples=50)}
