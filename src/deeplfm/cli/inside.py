"""Looking inside a model at some times: what ``forces`` and ``plot`` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.inspection.forces import Curve

Since = Annotated[str | None, typer.Option("--from", metavar="TIME", help="First time to show.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Last time to show.")]
Points = Annotated[
    int | None, typer.Option(min=2, metavar="N", help="So many times, evenly spaced.")
]


def chosen_times(
    forecaster: DeepLFMForecaster, since: str | None, until: str | None, points: int | None
) -> pd.Index:
    """The times of the data, or others that are evenly spaced between two."""
    index = forecaster.training_.index
    if since is None and until is None and points is None:
        return index
    if forecaster.covariates_:
        raise InputError(
            "--from, --until, --points: this model has covariates, which are known at the times of "
            "its data only. Leave these options out."
        )
    read = forecaster.timeline_.read
    first = index[0] if since is None else read(since, "--from")[0]
    last = index[-1] if until is None else read(until, "--until")[0]
    if first >= last:
        raise InputError(f"--from, --until: {first} is not before {last}. Give an earlier --from.")
    return evenly(first, last, points or len(index), index.name)


def evenly(first: Any, last: Any, count: int, name: Any) -> pd.Index:
    """So many times from the first to the last."""
    import numpy as np
    import pandas as pd

    if isinstance(first, pd.Timestamp):
        return pd.date_range(first, last, periods=count, name=name)
    if isinstance(first, pd.Timedelta):
        return pd.timedelta_range(first, last, periods=count, name=name)
    return pd.Index(np.linspace(first, last, count), name=name)


def curve_table(times: pd.Index, curves: Sequence[Curve]) -> pd.DataFrame:
    """Mean and standard deviation of curves by time; names that repeat say whose they are."""
    import pandas as pd

    counts = Counter(curve.label for curve in curves)
    columns: dict[str, Any] = {}
    for curve in curves:
        name = curve.label if counts[curve.label] == 1 else f"{curve.label} ({curve.member})"
        columns |= {name: curve.mean, f"{name}_std": curve.std}
    return pd.DataFrame(columns, index=times)
