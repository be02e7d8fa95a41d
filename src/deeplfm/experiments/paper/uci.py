"""Regression tables of the UCI repository, in three folds."""

from __future__ import annotations

from functools import partial

import numpy as np

from deeplfm.experiments.declaration import Case, Column, Entry, Experiment, Split, paper_table
from deeplfm.experiments.models import (
    beside_smooth,
    comparator,
    comparators,
    deep_gp,
    dlfm,
    ensemble,
    paper_dlfm,
    without_hidden_layer,
)

_TABLES = {"Powerplant": "powerplant", "Protein": "protein"}
_FOLDS = (1, 2, 3)
_HEADINGS = ("Powerplant NMSE", "Powerplant MNLL", "Protein NMSE", "Protein MNLL")
_NOTES = (
    "Means over the three folds; standard errors over the seeds, as in the paper.",
    "1 % of the training rows are set aside for validation, as in the paper.",
    "A Gaussian with the published NMSE of Protein, 0.698, has an MNLL of 1.24 in standardised units, "
    "not 0.754: the published densities are on another scale or of another kind, and cannot be compared.",
    "DLFM differs from the published one. Its likelihood is a mixture, since the targets of Protein are "
    "near one of two values, which one Gaussian noise cannot follow. Its features are those of a "
    "Gaussian smoothing filter, as in DGP-EQ: first-order responses are sums over single inputs, and "
    "were worse in development. Its settings were chosen on 10 % of the training rows of fold 1. There "
    "the hidden layer lowered the NMSE of Protein by 0.004 to 0.10, depending on width and learning "
    "rate, and the mixture improved the density of Powerplant by 0.2 nats.",
    "The nearest-neighbour GP of the ensemble, which is no DLFM, is far better on Powerplant: features "
    "of some thousand frequencies do not resolve the differences between near rows.",
)


def uci() -> Experiment:
    """Both tables, one hidden layer."""
    return _experiment(
        "uci",
        "UCI regression benchmarks",
        "Table 2, Figure 5",
        (
            ensemble("table"),
            dlfm("table"),
            paper_dlfm(),
            beside_smooth(),
            without_hidden_layer(),
            *deep_gp("DGP-EQ", "DGP-EQ"),
            *deep_gp("DGP-ARC", "DGP-ARC"),
            *(comparator(name, paper=name) for name in ("VAR-GP", "DNN")),
            *comparators("hybrid kernel", "boosted trees"),
        ),
        {
            "DLFM": "0.0557 (0.0005) | -0.017 (0.005) | 0.698 (0.004) | 0.754 (0.006)",
            "DGP-EQ": "0.0581 (0.0002) | 0.016 (0.003) | 0.553 (0.005) | 1.101 (0.002)",
            "DGP-ARC": "0.0619 (0.0002) | 0.039 (0.002) | 0.644 (0.027) | 1.203 (0.008)",
            "VAR-GP": "0.0576 (0.0001) | 0.050 (0.001) | 0.520 (0.005) | 1.174 (0.002)",
            "DNN": "0.0754 (0.0011) | N/A | 0.664 (0.010) | N/A",
        },
        drawn=("smooth + deep", "DLFM (paper)", "DGP-EQ (paper)", "DGP-ARC (paper)"),
    )


def two_hidden() -> Experiment:
    """Both tables, two hidden layers."""
    return _experiment(
        "uci-two-hidden",
        "UCI regression benchmarks with two hidden layers",
        "Table A4",
        (
            ensemble("table", hidden=(3, 3)),
            dlfm("table", hidden=(16, 16)),
            paper_dlfm(hidden=(3, 3)),
            beside_smooth(hidden=(3, 3)),
            *deep_gp("DGP-EQ", "DGP-EQ", hidden=(3, 3)),
            *deep_gp("DGP-ARC", "DGP-ARC", hidden=(3, 3)),
            comparator("DNN", paper="DNN", hidden=(300, 300)),
        ),
        {
            "DLFM": "0.0563 (0.001) | -0.0237 (0.01) | 0.706 (0.003) | 0.7335 (0.01)",
            "DGP-EQ": "0.0558 (0.001) | 0.0677 (0.06) | 0.574 (0.009) | 0.5678 (0.03)",
            "DGP-ARC": "0.0612 (0.001) | -0.0731 (0.01) | 0.680 (0.030) | 0.9308 (0.01)",
            "DNN": "0.0965 (0.005) | N/A | 0.614 (0.005) | N/A",
        },
    )


def _experiment(
    name: str,
    title: str,
    source: str,
    models: tuple[Entry, ...],
    rows: dict[str, str],
    drawn: tuple[str, ...] = (),
) -> Experiment:
    return Experiment(
        name=name,
        title=title,
        source=source,
        cases=tuple(
            Case(f"{title} fold {fold}", partial(_split, dataset, fold))
            for title, dataset in _TABLES.items()
            for fold in _FOLDS
        ),
        models=models,
        columns=tuple(_column(heading) for heading in _HEADINGS),
        paper=paper_table(_HEADINGS, rows),
        notes=_NOTES,
        drawn=drawn,
    )


def _column(heading: str) -> Column:
    table, metric = heading.split()
    cases = tuple(f"{table} fold {fold}" for fold in _FOLDS)
    return Column(heading, metric.lower(), cases, decimals=4 if heading == _HEADINGS[0] else 3)


def _split(dataset: str, fold: int, seed: int) -> Split:
    """One fold, already standardised by its training rows."""
    from deeplfm.data.catalogue import load

    data = load(dataset, fold=fold)
    order = np.random.default_rng(fold).permutation(len(data.x_train))
    n_validation = round(0.01 * len(order))
    validation, train = np.sort(order[:n_validation]), np.sort(order[n_validation:])
    return Split(
        x_train=data.x_train[train],
        y_train=data.y_train[train],
        x_test={"test": data.x_test, "validation": data.x_train[validation]},
        y_test={"test": data.y_test, "validation": data.y_train[validation]},
        outputs=(data.target,),
    )


DECLARATIONS = {"uci": uci, "uci-two-hidden": two_hidden}
