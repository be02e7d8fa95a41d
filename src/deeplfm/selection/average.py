"""Several models as one: a mixture whose weights held-out rows decided, for each output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive, mix

_EM_STEPS = 200
_PRIOR_SHARE = 0.05  # of the rows, granted to each survivor before any are seen
_WORST_GAP = 1.0  # nats per row
_N_PARTS, _N_SHARES = 4, 12  # of a series; all ways to share so much emphasis among them are tried
_KINSHIP = 0.5  # probability that what is best for one output is best for another


class ModelAverage(nn.Module):
    """A mixture of models; a single model is a stack of one.

    Args:
        members: models with the same inputs and outputs.
        weight: mixture weights; each output's sum to one.
        weight_in_gaps: others in their place, between two times of each output.
        span: these times; by default none is between them.
    """

    members: Sequence[DeepLFM]
    weight: Tensor
    weight_in_gaps: Tensor
    span: Tensor

    def __init__(
        self,
        members: list[DeepLFM],
        weight: Float[Tensor, "B D"],
        weight_in_gaps: Float[Tensor, "B D"] | None = None,
        span: Float[Tensor, "2 D"] | None = None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)  # type: ignore[assignment]
        in_gaps = weight if weight_in_gaps is None else weight_in_gaps
        self.register_buffer("weight", weight.clone())  # files hold no tensors that share memory
        self.register_buffer("weight_in_gaps", in_gaps.clone())
        nowhere = weight.new_tensor([[inf], [-inf]]).expand(2, weight.shape[1])
        self.register_buffer("span", (nowhere if span is None else span).clone())

    @classmethod
    def of(cls, model: DeepLFM) -> ModelAverage:
        """A stack of one."""
        return cls([model], torch.ones(1, model.config.n_outputs, dtype=torch.float64))

    def extend(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        """Let the series reach to further known values; their gaps are gaps as well."""
        last = known_span(x, y)[1].to(self.span)
        self.span[1] = torch.where(
            self.span[1].isfinite(), self.span[1].maximum(last), self.span[1]
        )

    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Mixture of the members' predictions, of those that have a say at each row."""
        weight = self.weight_at(x)
        heard = [b for b, share in enumerate(weight) if bool((share > 0).any())]
        parts = [self.members[b].posterior(x) for b in heard]
        return parts[0] if len(parts) == 1 else mix(parts, weight[heard])

    def weight_at(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "B _ D"]:
        """Weight of each member for every output, and for every row where rows differ."""
        plain = self.weight[:, None]
        if bool((self.span[0] < self.span[1]).any()):
            is_between = (x[:, :1] >= self.span[0]) & (x[:, :1] <= self.span[1])
            plain = torch.where(is_between, self.weight_in_gaps[:, None], plain)
        if all(member.is_function_of_time for member in self.members):
            return plain
        say = torch.stack([member.is_active(x) for member in self.members])  # B N
        weight = plain * say[:, :, None]
        total = weight.sum(0)
        return torch.where(total > 0, weight / total, plain)


def known_span(x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> Float[Tensor, "2 D"]:
    """First and last time at which each output is known; ∞ and −∞ where it never is."""
    time, known = x[:, :1].expand_as(y), ~y.isnan()
    return torch.stack([time.where(known, inf).amin(0), time.where(known, -inf).amax(0)])


def stacking_weights(
    log_density: Float[Tensor, "B N D"],
    margin: Float[Tensor, " B"] | None = None,
    counts: Float[Tensor, "N D"] | None = None,
    most_prior: float = 1.0,
) -> Float[Tensor, "B D"]:
    """Weights that maximise the log density of the mixture on held-out rows (EM, from uniform).

    Members more than a nat per row behind the best of an output leave it; the others keep a small
    share whatever the rows say. NaN marks missing targets; an output without any target gets uniform
    weights. A member with a margin must be that far ahead of all without.

    Args:
        log_density: of the held-out rows by each member.
        margin: of each member, in nats per row.
        counts: how many targets each one stands for; by default one.
        most_prior: rows at most that are granted to each survivor before any are seen.
    """
    known = _known(log_density, counts)
    density = log_density.nan_to_num(0.0)
    survives = _survivors(density, known, margin)
    prior = (_PRIOR_SHARE * known.sum(0).clamp_min(1)).clamp_max(most_prior)
    weight = survives / survives.sum(0)
    for _ in range(_EM_STEPS):
        share = torch.softmax(density + weight.log()[:, None], dim=0) * known
        weight = share.sum(1) + prior * survives
        weight = weight / weight.sum(0)
    return weight


def series_weights(
    log_density: Float[Tensor, "B N D"],
    margin: Float[Tensor, " B"] | None = None,
    counts: Float[Tensor, "N D"] | None = None,
) -> Float[Tensor, "B D"]:
    """Weights for a series: partly by stacking, partly by the probability that each member is the best.

    Members of a race on a series are much alike, and stacking leaves the best one where its many
    neighbours are; but a lead on the held-out rows need not last, and what is mixed covers better. So
    stacking has half of the word, and less of it the surer several outputs agree on their best member:
    luck would seldom choose the same one twice. Neighbouring rows repeat each other: they are worth
    fewer than they are, and what each member has before any speak grows with them.
    """
    alone = probability_of_best(log_density, margin, counts)
    stacked = stacking_weights(log_density, margin, counts, most_prior=inf)
    best = heard_by_all(alone)
    return best + (1 - _agreement(alone, margin)) / 2 * (stacked - best)


def probability_of_best(
    log_density: Float[Tensor, "B N D"],
    margin: Float[Tensor, " B"] | None = None,
    counts: Float[Tensor, "N D"] | None = None,
) -> Float[Tensor, "B D"]:
    """How probable it is that each member is the best, by consecutive held-out rows of a series.

    All rows of an output together speak for a member, exp(Σ log density), averaged over uncertain
    emphases of the parts of the tail: a lead in every part counts in full, one that rests on a single
    part little, as neighbouring rows repeat each other (the Bayesian bootstrap of Yao et al. 2018, of
    blocks). Who leaves is as in :func:`stacking_weights`.
    """
    known = _known(log_density, counts)
    density = log_density.nan_to_num(0.0)
    survives = _survivors(density, known, margin)
    density, n_rows = density * known, density.shape[1]
    part = torch.arange(n_rows, device=density.device) * _N_PARTS // max(n_rows, 1)
    totals = torch.zeros_like(density[:, :1]).repeat(1, _N_PARTS, 1).index_add(1, part, density)
    spoken = torch.einsum("ek,bkd->ebd", _emphases().to(totals), totals)
    return torch.softmax(spoken + survives.log(), dim=1).mean(0)


def heard_by_all(alone: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """The same probabilities once each output has heard the others, and so a noisy one a clear one.

    The best member of one output is that of another with probability one half.

    Args:
        alone: what the rows of each output say, from :func:`probability_of_best`.
    """
    vote = (_KINSHIP * alone + (1 - _KINSHIP) / len(alone)).log()
    return torch.softmax(alone.log() + vote.sum(-1, keepdim=True) - vote, dim=0)


def _agreement(alone: Float[Tensor, "B D"], margin: Float[Tensor, " B"] | None) -> float:
    """How probable it is that all of several outputs have the same best member, each by its own rows.

    As if outputs erred each for itself: errors that they share make it look surer than it is. Only
    members without margin count: one that had many chances may be lucky everywhere.
    """
    if alone.shape[1] == 1:
        return 0.0
    same = alone.prod(1)
    return float(same.sum() if margin is None else same[margin == 0].sum())


def _emphases() -> Float[Tensor, "E K"]:
    """Weights of the parts, evenly over all that are positive and one on average."""
    ways = product(range(_N_SHARES + 1), repeat=_N_PARTS)
    shares = torch.tensor([way for way in ways if sum(way) == _N_SHARES], dtype=torch.float64)
    return (_N_PARTS * shares + 1) / (_N_SHARES + 1)


def _known(
    log_density: Float[Tensor, "B N D"], counts: Float[Tensor, "N D"] | None
) -> Float[Tensor, "N D"]:
    """How many targets each one stands for that all members have a density of."""
    known = (~log_density.isnan().any(0)).to(log_density.dtype)
    return known if counts is None else known * counts


def _survivors(
    density: Float[Tensor, "B N D"],
    known: Float[Tensor, "N D"],
    margin: Float[Tensor, " B"] | None,
) -> Float[Tensor, "B D"]:
    """1 for members within a nat per row of the best that have overcome their margin."""
    total = known.sum(0)
    mean = (density * known).sum(1) / torch.where(total > 0, total, 1)  # B D
    survives = (mean >= mean.amax(0) - _WORST_GAP).to(density.dtype)
    if margin is not None and bool((margin == 0).any()):
        bar = mean[margin == 0].amax(0) + margin[:, None]
        survives = survives * ((mean >= bar) | (margin == 0)[:, None])
    return survives
