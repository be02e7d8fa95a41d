"""Several models as one: a mixture whose weights held-out rows decided, for each output."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.model import DeepLFM
from deeplfm.predictive import Predictive, mix

_EM_STEPS = 200
_PRIOR_SHARE = 0.05  # of the rows, granted to each survivor before any are seen
_WORST_GAP = 1.0  # nats per row


class Stack(nn.Module):
    """A mixture of models; a single model is a stack of one.

    Args:
        members: models with the same inputs and outputs.
        weight: mixture weights; each output's sum to one.
    """

    members: Sequence[DeepLFM]
    weight: Tensor

    def __init__(self, members: list[DeepLFM], weight: Float[Tensor, "B D"]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)  # type: ignore[assignment]
        self.register_buffer("weight", weight)

    @classmethod
    def of(cls, model: DeepLFM) -> Stack:
        """A stack of one."""
        return cls([model], torch.ones(1, model.config.n_outputs, dtype=torch.float64))

    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Mixture of the members' predictions, of those that have a say at each row."""
        parts = [member.posterior(x) for member in self.members]
        return parts[0] if len(parts) == 1 else mix(parts, self._weight_at(x))

    def _weight_at(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "B _ D"]:
        if all(member.is_function_of_time for member in self.members):
            return self.weight[:, None]
        say = torch.stack([member.has_say(x) for member in self.members])  # B N
        weight = self.weight[:, None] * say[:, :, None]
        total = weight.sum(0)
        return torch.where(total > 0, weight / total, self.weight[:, None])


def stacking_weights(
    log_density: Float[Tensor, "B N D"], handicap: Float[Tensor, " B"] | None = None
) -> Float[Tensor, "B D"]:
    """Weights that maximise the log density of the mixture on held-out rows (EM, from uniform).

    Members more than a nat per row behind the best of an output leave it; the others keep a small
    share whatever the rows say, as these are few. NaN marks missing targets; an output without any
    target gets uniform weights. A member with a handicap must be that far ahead of all without.
    """
    known = ~log_density.isnan().any(0)
    density = log_density.nan_to_num(0.0)
    mean = (density * known).sum(1) / known.sum(0).clamp_min(1)  # B D
    survives = (mean >= mean.amax(0) - _WORST_GAP).to(density.dtype)
    if handicap is not None and bool((handicap == 0).any()):
        bar = mean[handicap == 0].amax(0) + handicap[:, None]
        survives = survives * ((mean >= bar) | (handicap == 0)[:, None])
    weight = survives / survives.sum(0)
    for _ in range(_EM_STEPS):
        share = torch.softmax(density + weight.log()[:, None], dim=0) * known
        weight = share.sum(1) + _PRIOR_SHARE * known.sum(0).clamp_min(1) * survives
        weight = weight / weight.sum(0)
    return weight
