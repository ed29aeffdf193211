"""The configuration of a translation with a trained run: settings (translate_settings.py) and their checks."""

from dataclasses import dataclass

from minitf.config.alternatives import check_plain
from minitf.config.options import check_fields
from minitf.config.run import check_device, check_precision
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
    """A translation; a value of none is taken from the run. Its fields are in the order of the bases, last first."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu", self.kernels)
        if self.plain:
            fast = ("threads", "kernels", "shortlist", "alignment", "attention")
            check_plain(self, fast)
        if self.average is not None and self.checkpoint is not None:
            raise UserError(
                f"average={self.average} and checkpoint={self.checkpoint} cannot be combined; choose one of the two"
            )
        if self.weights in ("best", "moving-average") and (self.average or self.checkpoint) is not None:
            raise UserError(
                f"weights={self.weights} is neither an average of checkpoints nor one of them; omit average and "
                "checkpoint, or weights"
            )
        if self.more and self.attention is not None:
            raise UserError("attention shows the heads of one model, not of an ensemble; give only one run")
        if self.sample and self.beam_patience is not None:
            raise UserError("beam_patience and sample cannot be combined: sampling has no beam; omit one of them")
        if self.sample and self.beam is not None and self.beam > 1:
            raise UserError(f"beam={self.beam} and sample cannot be combined: sampling has no beam; omit one of them")
        for name in ("reference", "prefix", "sample", "attention", "beam_patience"):
            if self.score is not None and getattr(self, name):
                raise UserError(
                    f"score and {name} cannot be combined: score writes no new translations; omit one of them"
                )
        for name in ("score", "prefix", "sample"):
            if self.shortlist is not None and getattr(self, name):
                raise UserError(f"shortlist and {name} cannot be combined; omit one of them")
        if self.prefix is not None and self.attention is not None:
            raise UserError(
                "prefix and attention cannot be combined: attention shows free translations; omit one of them"
            )
        if self.score is not None and self.nbest > 1:
            raise UserError(
                f"nbest={self.nbest} and score cannot be combined: a line has one given translation; omit one of them"
            )
