"""Model average: a mixture of models, and its weights by their scores on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.predictive.mixture import Predictive, mix
from deeplfm.selection.candidate import FittedCandidate, Member, Score
from deeplfm.selection.split import known_span

_EM_STEPS = 200
_PRIOR_SHARE = 0.05  # of the rows, added to the count of each survivor
_WORST_GAP = 1.0  # nats per row
_N_PARTS, _N_SHARES = 4, 12  # of a series; all ways to share so much weight among them are tried
_LEAST_WEIGHT = 0.05  # of a member, in one output at least
_LEAST_LEAD = 15.0  # nats over all rows, where there is a margin: few rows leave more to luck
_SAME_BEST = 0.5  # probability that the best member of one output is the best of another


class ModelAverage(nn.Module):
    """A mixture of models; a single model is an average of one.

    Args:
        members: models with the same inputs and outputs.
        weight: mixture weights; each output's sum to one.
        weight_in_gaps: others in their place, between two times of each output.
        span: these times; by default none is between them.
    """

    members: Sequence[Member]
    weight: Tensor
    weight_in_gaps: Tensor
    span: Tensor

    def __init__(
        self,
        members: Sequence[Member],
        weight: Float[Tensor, "B D"],
        weight_in_gaps: Float[Tensor, "B D"] | None = None,
        span: Float[Tensor, "2 D"] | None = None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)  # type: ignore[assignment, arg-type]
        in_gaps = weight if weight_in_gaps is None else weight_in_gaps
        self.register_buffer("weight", weight.clone())  # files hold no tensors that share memory
        self.register_buffer("weight_in_gaps", in_gaps.clone())
        nowhere = weight.new_tensor([[inf], [-inf]]).expand(2, weight.shape[1])
        self.register_buffer("span", (nowhere if span is None else span).clone())

    @classmethod
    def of(cls, model: Member) -> ModelAverage:
        """An average of one."""
        return cls([model], torch.ones(1, len(model.likelihood.inflation), dtype=torch.float64))

    def extend(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        """Extend the span of the series to further known values."""
        last = known_span(x, y)[1].to(self.span)
        if any(getattr(member, "knows_other_outputs", False) for member in self.members):
            last = last.amax().expand_as(last)  # in a gap of one output, others are known
        self.span[1] = torch.where(
            self.span[1].isfinite(), self.span[1].maximum(last), self.span[1]
        )

    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Mixture of the members' predictions, of those with weight at each row."""
        weight = self.weight_at(x)
        some = [b for b, share in enumerate(weight) if bool((share > 0).any())]
        parts = [self.members[b].posterior(x) for b in some]
        return parts[0] if len(parts) == 1 else mix(parts, weight[some])

    def weight_at(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "B _ D"]:
        """Weight of each member for every output, and for every row where rows differ."""
        plain = self.weight[:, None]
        if bool((self.span[0] < self.span[1]).any()):
            is_between = (x[:, :1] >= self.span[0]) & (x[:, :1] <= self.span[1])
            plain = torch.where(is_between, self.weight_in_gaps[:, None], plain)
        is_active = torch.stack([member.is_active(x) for member in self.members])  # B N
        if bool(is_active.all()):
            return plain
        weight = plain * is_active[:, :, None]
        total = weight.sum(0)
        return torch.where(total > 0, weight / total, plain)


def stacking_weights(
    log_density: Float[Tensor, "B N D"],
    margin: Float[Tensor, " B"] | None = None,
    counts: Float[Tensor, "N D"] | None = None,
    most_prior: float = 1.0,
) -> Float[Tensor, "B D"]:
    """Weights that maximise the log density of the mixture on held-out rows (EM, from uniform).

    Members more than a nat per row behind the best of an output get no weight there; the others keep a
    small share in any case. NaN marks missing targets; an output without any target gets uniform
    weights. A member with a margin must lead all members without one by as much.

    Args:
        log_density: of the held-out rows by each member.
        margin: of each member, in nats per row.
        counts: how many targets each one stands for; by default one.
        most_prior: at most so many rows are added to the count of each survivor.
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
    """Weights for a series: the mean of stacking weights and the probability of each member to be best.

    Candidates for a series are much alike, and stacking divides the weight of the best among many that
    resemble it; but a lead on the held-out rows need not last, and a mixture has better coverage. So
    stacking has half of the weight, and less of it the more probably several outputs have the same best
    member: luck would seldom choose the same one twice. Neighbouring rows repeat each other: the prior
    count of each member grows with their number.
    """
    alone = probability_of_best(log_density, margin, counts)
    stacked = stacking_weights(log_density, margin, counts, most_prior=inf)
    best = pooled_over_outputs(alone)
    return best + (1 - _agreement(alone, margin)) / 2 * (stacked - best)


def probability_of_best(
    log_density: Float[Tensor, "B N D"],
    margin: Float[Tensor, " B"] | None = None,
    counts: Float[Tensor, "N D"] | None = None,
) -> Float[Tensor, "B D"]:
    """Probability of each member to be the best, by consecutive held-out rows of a series.

    It is proportional to exp(Σ log density) over all rows of an output, averaged over random weights of
    the parts of the tail: a lead in every part counts in full, one that rests on a single part little,
    as neighbouring rows repeat each other (the Bayesian bootstrap of Yao et al. 2018, of blocks). Members
    without weight are those of :func:`stacking_weights`.
    """
    known = _known(log_density, counts)
    density = log_density.nan_to_num(0.0)
    survives = _survivors(density, known, margin)
    density, n_rows = density * known, density.shape[1]
    part = torch.arange(n_rows, device=density.device) * _N_PARTS // max(n_rows, 1)
    totals = torch.zeros_like(density[:, :1]).repeat(1, _N_PARTS, 1).index_add(1, part, density)
    density = torch.einsum("ek,bkd->ebd", _part_weights().to(totals), totals)
    return torch.softmax(density + survives.log(), dim=1).mean(0)


def pooled_over_outputs(alone: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """Probabilities of each member to be best, given the rows of all outputs.

    The best member of one output is that of another with probability one half.
    """
    vote = (_SAME_BEST * alone + (1 - _SAME_BEST) / len(alone)).log()
    return torch.softmax(alone.log() + vote.sum(-1, keepdim=True) - vote, dim=0)


def _agreement(alone: Float[Tensor, "B D"], margin: Float[Tensor, " B"] | None) -> float:
    """Probability that all of several outputs have the same best member, each by its own rows.

    Errors of the outputs are taken as independent: shared errors make it too large. Only members without
    margin count: one that had many chances may be lucky everywhere.
    """
    if alone.shape[1] == 1:
        return 0.0
    same = alone.prod(1)
    return float(same.sum() if margin is None else same[margin == 0].sum())


def _part_weights() -> Float[Tensor, "E K"]:
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


def forecast_weights(fitted: list[FittedCandidate], is_series: bool) -> Float[Tensor, "B D"]:
    """Weights by the held-out rows, of the candidates that forecast."""
    weigh = series_weights if is_series else stacking_weights
    some = [b for b, item in enumerate(fitted) if item.candidate.forecasts] or range(len(fitted))
    return _weights(weigh, fitted, {b: fitted[b].score for b in some})


def gap_weights(fitted: list[FittedCandidate]) -> Float[Tensor, "B D"]:
    """Weights by the values hidden like gaps; zero in an output that has none."""
    scored = {b: item.gap_score for b, item in enumerate(fitted) if item.gap_score is not None}
    if not scored:
        return torch.zeros_like(fitted[0].score.density[:1]).expand(len(fitted), -1)
    is_hidden = ~next(iter(scored.values())).density.isnan().all(0)
    return _weights(series_weights, fitted, scored) * is_hidden


def _weights(
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor],
    fitted: list[FittedCandidate],
    scores: dict[int, Score],
) -> Float[Tensor, "B D"]:
    """Weights of some candidates, zero of the others; one for gaps alone has no margin there."""
    density = torch.stack([item.density for item in scores.values()])
    candidates = [fitted[b].candidate for b in scores]
    margin = density.new_tensor([item.margin if item.forecasts else 0.0 for item in candidates])
    least = _LEAST_LEAD / max(1, density.shape[1])
    margin = torch.where(margin > 0, margin.clamp_min(least), 0.0)
    weight = density.new_zeros(len(fitted), density.shape[-1])
    weight[list(scores)] = weigh(density, margin, next(iter(scores.values())).counts)
    return weight


def choose_members(
    fitted: list[FittedCandidate], weight: Float[Tensor, "B D"], in_gaps: Float[Tensor, "B D"]
) -> list[FittedCandidate]:
    """Candidates whose weights are large enough, with these weights.

    A model with a large error after the rows gets a wide interval there. In a gap, where rows on both
    sides are known, that interval would be too wide: hence copies with a calibration of their own.
    """
    between = torch.where(in_gaps.sum(0) > 0, 0.0, weight)
    both = torch.stack([weight, between], dim=1)  # B 2 D
    for item, share, gap_share in zip(fitted, both, in_gaps, strict=True):
        item.weight = share if float(share[0].max()) >= _LEAST_WEIGHT else None
        is_for_gaps = item.gap_score is not None and float(gap_share.max()) >= _LEAST_WEIGHT
        item.gap_weight = gap_share if is_for_gaps else None
    # An autoregression is not active within its rows: one candidate that is active is kept in any case.
    within = [b for b, item in enumerate(fitted) if _is_within_rows(item)]
    if within and all(fitted[b].weight is None for b in within):
        best = max(within, key=lambda b: float(fitted[b].score.mean_density.nanmean()))
        fitted[best].weight = both[best]
    return [item for item in fitted if item.members]


def _is_within_rows(item: FittedCandidate) -> bool:
    return item.candidate.fills_gaps and item.candidate.forecasts
