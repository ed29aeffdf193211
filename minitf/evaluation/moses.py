"""Moses' word tokenization, which the paper's BLEU is taken on: punctuation set apart, abbreviations kept together.

The rules are those of Moses' tokenizer.perl without its options. The abbreviations are a list of our own, so that a
rare one may be cut where Moses keeps it.
"""

import re
from collections.abc import Callable

ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
LANGUAGES = ("de", "en", "fr")

# No sentence ends at the full stop of these.
_ABBREVIATIONS = {
    "de": """
        Abb Abs Abt Adr Anm Art Aufl Bd Bde bspw bzw ca Co Dipl Dir Dr Dres Ed Exz Fa Fr Frl Ges Gebr geb gest ggf
        Hg Hr Hrn Hrsg Ing inkl Inh Jh jr Kap Kfm Lic lfd Mag max Mag Med min Mio Mrd mind Mr Mrs Ms Nr Op Orig Pf Pfd
        Phil phil Pkt Prof Red Reg resp rer sog Sr St Std Str stud Tel tel Tsd usf usw u.a u.U v.a vgl vs
        Vol vorm z.B z.T z.Zt zzgl zw d.h i.d.R i.e e.g a.D n.Chr v.Chr u.s.w Okt Jan Feb Apr Aug Sept Nov Dez
    """,
    "en": """
        Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr Hosp Insp Lt
        MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr
        St Supt Surg Jr v vs i.e rev e.g Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Inc Ltd Co
    """,
    "fr": """
        adj adm adv art av apr boul bd cf ch chap dép dr ed env etc fig hab hon ibid id inf lat long M Me Mgr Mlle Mlles
        MM Mme Mmes Mr n° no nov oct op p pl pp prof rép s sept st Ste suiv t tél v vol vs zool
    """,
}
_ROMAN = "II III IV VI VII VIII IX XI XII XIII XIV XV XVI XVII XVIII XIX XX"
_BEFORE_NUMBERS: dict[str, tuple[str, ...]] = {"de": (), "en": ("No", "Nos", "Art", "Nr", "pp"), "fr": ("no", "nos")}

_DOT = "\x00"  # stands for those of "..." meanwhile, so that rules about single ones pass them over

# What replace-unicode-punctuation.perl replaces.
_PUNCTUATION = str.maketrans(
    {
        **dict(zip("，、”“∶：？《》）！（；」「～’━〈〉【】％", ',,""::?"")!(;""~\'-<>[]%', strict=True)),
        **{chr(ord("０") + digit): str(digit) for digit in range(10)},
        "…": "...",
    }
)


def replace_unicode_punctuation(line: str) -> str:
    """Full-width and typographic signs as ASCII has them, as Moses' script of that name does."""
    return re.sub("[。．] *", ". ", line.translate(_PUNCTUATION))


def split_compounds(line: str) -> str:
    """`Karl-Marx-Allee` -> `Karl ##AT##-##AT## Marx ##AT##-##AT## Allee`, as the paper's BLEU does on both sides."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def tokenizer(language: str) -> Callable[[str], str]:
    """A function that sets punctuation apart from words, with one space between tokens, and escapes what Moses does."""
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is not known; choose one of {', '.join(LANGUAGES)}")
    kept = {*_ABBREVIATIONS[language].split(), *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
    if language == "de":
        kept |= {*"abcdefghijklmnopqrstuvwxyz", *map(str, range(1, 100))}  # ordinals: "am 3. Mai"
        kept |= {*_ROMAN.split()}
    before_numbers = set(_BEFORE_NUMBERS[language])

    def tokenize(line: str) -> str:
        line = re.sub(r"[\x00-\x1f]", "", re.sub(r"\s+", " ", line))
        line = f" {line.strip()} "
        line = re.sub(r"([^\w\s.'`,\-]|_)", r" \1 ", line)  # \w is letters, digits, marks and "_"
        line = re.sub(r"\.{2,}", lambda dots: f" {_DOT * len(dots[0])} ", line)
        line = re.sub(r"(\D),", r"\1 , ", line)
        line = re.sub(r",(\D)", r" , \1", line)
        line = _CONTRACTIONS[language](line)
        words = line.split()
        words = [_cut_full_stop(words, i, kept, before_numbers) for i in range(len(words))]
        line = re.sub(r"\.' ?$", " . ' ", " ".join(words))
        line = " ".join(line.split()).replace(_DOT, ".")
        return re.sub(r"[&|<>'\"\[\]]", lambda sign: ESCAPES[sign[0]], line)

    return tokenize


def _cut_full_stop(words: list[str], i: int, kept: set[str], before_numbers: set[str]) -> str:
    """`Ende.` as `Ende .`, unless it is an abbreviation, or the next word goes on in lower case."""
    word = words[i]
    if len(word) < 2 or not word.endswith("."):
        return word
    stem = word[:-1]
    if i == len(words) - 1:
        return f"{stem} ."
    following = words[i + 1]
    has_inner_stop = "." in stem and any(map(str.isalpha, stem))
    if has_inner_stop or stem in kept or following[0].islower():
        return word
    if stem in before_numbers and following[0].isdigit():
        return word
    return f"{stem} ."


_LETTER, _NO_LETTER, _NEITHER = r"([^\W\d_])", r"([\W\d_])", r"([\W_])"


def _english(line: str) -> str:
    """`it's 'so'` -> `it 's ' so '`"""
    line = re.sub(f"{_NO_LETTER}'{_NO_LETTER}", r"\1 ' \2", line)
    line = re.sub(f"{_NEITHER}'{_LETTER}", r"\1 ' \2", line)
    line = re.sub(f"{_LETTER}'{_NO_LETTER}", r"\1 ' \2", line)
    line = re.sub(f"{_LETTER}'{_LETTER}", r"\1 '\2", line)
    return re.sub(r"(\d)'(s)", r"\1 '\2", line)


def _french(line: str) -> str:
    """`l'eau 'si'` -> `l' eau ' si '`"""
    line = re.sub(f"{_NO_LETTER}'{_NO_LETTER}", r"\1 ' \2", line)
    line = re.sub(f"{_NO_LETTER}'{_LETTER}", r"\1 ' \2", line)
    line = re.sub(f"{_LETTER}'{_NO_LETTER}", r"\1 ' \2", line)
    return re.sub(f"{_LETTER}'{_LETTER}", r"\1' \2", line)


def _other(line: str) -> str:
    return line.replace("'", " ' ")


_CONTRACTIONS: dict[str, Callable[[str], str]] = {"en": _english, "fr": _french, "de": _other}
