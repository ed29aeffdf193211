"""A translation with a trained run: its settings (translate_settings.py), and which of them exclude each other."""

from dataclasses import dataclass

from minitf.config.options import check_fields
from minitf.config.run import check_device, check_plain, check_precision
from minitf.config.translate_settings import (
    AttentionSettings,
    MachineSettings,
    OutputSettings,
    SamplingSettings,
    SearchSettings,
    TextSettings,
    WeightSettings,
)
from minitf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(
    MachineSettings, AttentionSettings, WeightSettings, OutputSettings, SamplingSettings, SearchSettings, TextSettings
):
    """A translation. The run provides what is none here. Its fields are in the order of the bases, the last first."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu")
        if self.plain:
            fast = ("threads", "kernels", "same_bits", "shortlist", "alignment", "attention")
            check_plain(self, fast)
        if self.average is not None and self.checkpoint is not None:
            raise UserError(
                f"average={self.average} and checkpoint={self.checkpoint} exclude each other; choose one of the two"
            )
        if self.weights in ("best", "moving-average") and (self.average or self.checkpoint) is not None:
            raise UserError(
                f"weights={self.weights} is neither an average of checkpoints nor one of them; leave out average and "
                "checkpoint, or weights"
            )
        if self.more and self.attention is not None:
            raise UserError("attention shows the heads of one model, not of an ensemble; give one run")
        if self.sample and self.beam_patience is not None:
            raise UserError("beam_patience and sample exclude each other: sampling has no beam; leave one out")
        if self.sample and self.beam is not None and self.beam > 1:
            raise UserError(f"beam={self.beam} and sample exclude each other: sampling has no beam; leave one out")
        for name in ("reference", "prefix", "sample", "attention", "beam_patience"):
            if self.score is not None and getattr(self, name):
                raise UserError(f"score and {name} exclude each other: score writes no new translations; leave one out")
        for name in ("score", "prefix", "sample", "same_bits"):
            if self.shortlist is not None and getattr(self, name):
                raise UserError(f"shortlist and {name} exclude each other; leave one out")
        if self.prefix is not None and self.attention is not None:
            raise UserError("prefix and attention exclude each other: attention shows free translations; leave one out")
        if self.score is not None and self.nbest > 1:
            raise UserError(f"nbest={self.nbest} and score exclude each other: a line has one given translation")
