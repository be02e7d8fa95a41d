"""A prediction as a figure shows it: a mean inside intervals of several coverages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float64
from matplotlib.axes import Axes
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.plots.dense import MOST_ROWS, envelope, outline
from deeplfm.plots.style import BLUE, tint
from deeplfm.predictive.mixture import Predictive

COVERAGES = (0.5, 0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Fan:
    """Prediction of one output.

    Attributes:
        mean: expected value of every row.
        bands: low and high end of the central interval of every row, by its coverage.
    """

    mean: Float64[ndarray, " N"]
    bands: Mapping[float, tuple[Float64[ndarray, " N"], Float64[ndarray, " N"]]]

    def rows(self, which: Bool[ndarray, " N"]) -> Fan:
        """The same for some rows."""
        bands = {key: (low[which], high[which]) for key, (low, high) in self.bands.items()}
        return Fan(self.mean[which], bands)


def fans_of(
    posterior: Predictive,
    names: Sequence[str],
    coverages: Sequence[float] = COVERAGES,
    latent: bool = False,
) -> dict[str, Fan]:
    """Fans of all outputs of a prediction, by name.

    Args:
        posterior: prediction, such as ``DeepLFMRegressor.posterior`` returns.
        names: of its outputs, in order.
        coverages: of the intervals, each strictly between 0 and 1.
        latent: whether to leave out the noise of the observations.
    """
    mean = posterior.mean.numpy(force=True)
    if len(names) != mean.shape[-1]:
        raise InputError(
            f"names: {len(names)} found, but the prediction has {mean.shape[-1]} outputs. "
            "Give one name for each."
        )
    ends = posterior.quantile(interval_levels(coverages), latent).numpy(force=True)
    return fans_from(mean, ends, names, coverages)


def interval_levels(coverages: Sequence[float]) -> list[float]:
    """Levels of the quantiles that are the low ends, then the high ends, of central intervals."""
    return [(1 + sign * coverage) / 2 for sign in (-1, 1) for coverage in coverages]


def fans_from(
    mean: Float64[ndarray, "N D"],
    ends: Float64[ndarray, "L N D"],
    names: Sequence[str],
    coverages: Sequence[float] = COVERAGES,
) -> dict[str, Fan]:
    """Fans of means, and of quantiles at :func:`interval_levels`."""
    low, high = ends[: len(coverages)], ends[len(coverages) :]
    return {
        name: Fan(
            mean[:, d],
            {coverage: (low[i, :, d], high[i, :, d]) for i, coverage in enumerate(coverages)},
        )
        for d, name in enumerate(names)
    }


def plot_fan(
    ax: Axes, position: Float64[ndarray, " N"], fan: Fan, *, label: str = "prediction"
) -> Axes:
    """Draw the intervals of a prediction, widest and palest first, and its mean above them.

    Args:
        ax: where to draw.
        position: of each row on the horizontal axis, increasing.
        fan: prediction of those rows.
        label: of the mean, for the legend.
    """
    is_single = len(position) == 1  # a point and bars, since one row has no line and no area
    widest_first = sorted(fan.bands, reverse=True)
    for rank, coverage in enumerate(widest_first):
        strength = 0.18 + 0.34 * rank / max(1, len(widest_first) - 1)
        ax.fill_between(
            *envelope(position, *fan.bands[coverage]),
            color=tint(BLUE, strength),
            linewidth=6 if is_single else 0,
            label=f"{100 * coverage:g} % interval",
            zorder=1 + 0.1 * rank,
        )
    line, width = outline(position, fan.mean), 1.5 if len(position) <= MOST_ROWS else 0.8
    ax.plot(*line, color="white", linewidth=width + 1, alpha=0.7, zorder=4)  # sets it off points
    marker = "o" if is_single else ""
    ax.plot(*line, color=BLUE, linewidth=width, marker=marker, label=label, zorder=5)
    return ax
