"""Terms, their sums, and models as text."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import deeplfm
from deeplfm import ConfigError, DeepLFMForecaster, DeepLFMRegressor, InputError
from deeplfm.estimators.candidates import in_time_units, models_of
from deeplfm.terms import (
    NAMED_MODELS,
    TERMS,
    BroadBand,
    BuildContext,
    Composition,
    Covariates,
    Deep,
    DeepTable,
    Dlfm,
    LocalLevel,
    MeanReversion,
    OtherOutputs,
    Paper,
    Season,
    SharedForces,
    SharedSeason,
    Sinusoids,
    Sum,
    Table,
    Trend,
    WarpedTime,
    from_json,
    parse,
    to_json,
)
from deeplfm.terms.candidates import IN_GAPS, OTHER_CYCLES, SERIES, STATE_SPACE
from deeplfm.training import Rows

TIME = torch.linspace(0, 1, 120, dtype=torch.float64)[:, None]
RATE = 40.0


def rows(n_outputs: int = 2, n_covariates: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(0)
    shift = torch.arange(n_outputs) / 3
    y = torch.sin(RATE * TIME + shift) + 0.3 * torch.sin(2 * RATE * TIME)
    y = y + 0.1 * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    more = torch.randn(120, n_covariates, generator=generator, dtype=torch.float64)
    return Rows(torch.cat([TIME, more], 1), (y - y.mean(0)) / y.std(0))


def names_of(model: Sum, data: Rows) -> list[str]:
    built = model.build_features(data, BuildContext(n_steps=3))
    return [block.name for block in built.output_layer.blocks]


EVERY_TERM = [
    Trend(),
    Season(12),
    Season("1D", n_harmonics=3, nested=False),
    SharedSeason(7.5),
    Sinusoids(5, bandwidth=1.0, jitter=0.01, learn_bandwidth=True, system="eq"),
    LocalLevel(damped=True),
    MeanReversion(),
    BroadBand(30),
    Covariates(10),
    SharedForces(2, 20),
    OtherOutputs(),
    WarpedTime(),
    Composition(3),
    Deep((3, 2), system="eq", n_forces=2, n_features=10),
]


def test_every_term_is_registered_and_has_one_name() -> None:
    assert {type(term) for term in EVERY_TERM} == set(TERMS.values())
    assert all(kind.term_name == name for name, kind in {**TERMS, **NAMED_MODELS}.items())


@pytest.mark.parametrize("term", EVERY_TERM, ids=str)
def test_text_and_repr_of_a_term_read_back_as_the_term(term: object) -> None:
    assert parse(str(term)) == parse(repr(term)) == Sum((term,))


def test_sums_read_back_too_and_are_plain_data() -> None:
    for model in [*SERIES.values(), Paper((6,), n_features=50), Table(system="eq")]:
        assert parse(str(model)) == parse(repr(model)) == model
        assert from_json(json.loads(json.dumps(to_json(model)))) == model
    candidates = {"a": Trend() + Season(12), "b": "ensemble"}
    assert from_json(json.loads(json.dumps(to_json(candidates)))) == candidates


def test_adding_keeps_the_order_and_terms_are_frozen() -> None:
    model = Trend() + (Season(12) + LocalLevel()) + BroadBand()
    assert [type(term) for term in model] == [Trend, Season, LocalLevel, BroadBand]
    assert repr(model) == "Trend() + Season(12) + LocalLevel() + BroadBand()"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Season(12).period = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("trend+season( 12 )+level", Trend() + Season(12) + LocalLevel()),
        ("season(1D) + level(damped)", Season("1D") + LocalLevel(damped=True)),
        ("level(damped=true)", Sum((LocalLevel(damped=True),))),
        ("season('7 days')", Sum((Season("7 days"),))),
        ("deep(3, 2, system=eq) + broadband", Deep((3, 2), system="eq") + BroadBand()),
        ("warped(season) + Trend()", WarpedTime(Season()) + Trend()),
        ("paper(hidden=6)", Paper((6,))),
    ],
)
def test_the_grammar_is_short(text: str, declared: object) -> None:
    assert parse(text) == declared


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sesaon(12)", r"'sesaon' in 'sesaon\(12\)' is no term. Did you mean 'season'"),
        ("ode2", r"It is a system: .* deep\(system=ode2\)"),
        ("trend + ", r"'trend \+ ' cannot be read"),
        ("trend * 2", "is no term"),
        ("season(12, peroid=3)", "season in .* takes period, .*; found peroid"),
        ("trend(1)", "trend in .* takes no arguments; found 1 values"),
        ("season(1 + 1)", "the argument '1 \\+ 1'"),
        ("trend + paper", "adds a term to a whole model"),
        ("deep(0)", r"deep: hidden is \(0,\)"),
        ("sinusoids(n=2.5)", "sinusoids: n is 2.5"),
        ("broadband(system=ode9)", "system: 'ode9' is not known"),
        ("shared_season(system=eq)", "shared_season: system 'eq' is not of first order"),
        ("warped(trend)", "warped: trend found"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_blocks_are_found_by_the_names_of_their_terms() -> None:
    assert names_of(Trend() + Season() + LocalLevel(), rows()) == ["trend", "season", "level"]
    assert names_of(Sinusoids(3) + Sinusoids(2), rows()) == ["sinusoids", "sinusoids 2"]
    assert names_of(WarpedTime() + BroadBand(), rows()) == ["warped season", "broadband"]
    assert names_of(Sum((Season(),)), rows(1, n_covariates=2)) == ["season", "covariates"]


def test_a_term_reads_what_earlier_terms_leave() -> None:
    """The season takes out both of its sinusoids; what is left is the noise of ten per cent."""
    model = (Season() + Sinusoids(3)).build_features(rows(1), BuildContext())
    sinusoids = model.output_layer.block("sinusoids").features
    assert bool((sinusoids.sensitivity[0, 0, 1:] < 0.05).all())
    noise = float(model.gaussian.log_variance.detach().exp()[0])
    assert noise == pytest.approx(0.01 / 0.56, rel=0.4)


@pytest.mark.parametrize("system", ["ode1", "eq"])
def test_a_season_of_a_given_period_has_its_harmonics(system: str) -> None:
    context = BuildContext(time_scale=50.0)  # 50 of the user's units in the record
    term = Season(50.0 * 2 * np.pi / RATE, system=system)
    model = Sum((term,)).build_features(rows(1), context)
    centers = model.output_layer.block("season").features.center[0, 0, 1:4]
    assert centers.tolist() == pytest.approx([RATE, 2 * RATE, 3 * RATE], rel=1e-9)
    with pytest.raises(ConfigError, match="a period must be positive, found -1"):
        Sum((Season(-1),)).build(rows(1), context)
    with pytest.raises(ConfigError, match="'1D' is a duration, and these times are numbers"):
        Sum((Season("1D"),)).build(rows(1), context)


def test_terms_that_exclude_each_other_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="warped and composition each bring hidden layers"):
        (WarpedTime() + Composition()).build(rows(), BuildContext())
    with pytest.raises(ConfigError, match="trend cannot stand beside shared_forces"):
        (Trend() + SharedForces()).build_features(rows(), BuildContext())


def test_names_stand_for_declared_models() -> None:
    assert models_of("dlfm", is_series=True) == {"dlfm": Dlfm()}
    assert models_of("dlfm", is_series=False) == {"dlfm": DeepTable()}
    assert set(models_of("auto", is_series=True)) == {*STATE_SPACE, *IN_GAPS, *OTHER_CYCLES}
    assert set(models_of("auto", is_series=True, effort="fast")) == {*STATE_SPACE, *IN_GAPS}
    assert models_of("auto", True, "thorough") == models_of("ensemble", True)
    assert not set(models_of("ensemble", is_series=True)) - {
        *SERIES,
        "autoregression",
        "linear autoregression",
        "nearest-neighbour GP",
    }
    deep = [name for name, model in SERIES.items() if model.has_hidden_layer]
    assert deep == ["warped season", "deep", "composition"]
    with pytest.raises(ConfigError, match="model of time, and the data are a table"):
        models_of("trend + season", is_series=False)
    with pytest.raises(ConfigError, match="an empty dict"):
        models_of({}, is_series=True)


def test_a_dict_of_candidates_is_compared() -> None:
    time = np.arange(80.0)
    candidates = {"yearly": "season(12)", "level only": LocalLevel()}
    model = DeepLFMRegressor(candidates, n_steps=3).fit(time, np.sin(2 * np.pi * time / 12))
    table = model.selection_
    assert set(table.index) == {"yearly", "level only"}


def test_periods_are_steps_of_timestamps_or_durations(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=70, freq="D")
    values = np.sin(2 * np.pi * np.arange(70) / 7)
    frame = pd.DataFrame({"load": values}, index=days)
    for period in (7, "7D"):
        model = DeepLFMForecaster(Season(period) + BroadBand(), n_steps=3).fit(frame)
        ahead = np.sin(2 * np.pi * np.arange(70, 84) / 7)
        assert model.forecast(14)["load"].to_numpy() == pytest.approx(ahead, abs=0.05)
        model.save(tmp_path / str(period))
        assert deeplfm.load(tmp_path / str(period)).model == Season(period) + BroadBand()
    numbers = pd.DataFrame({"load": values}, index=np.arange(70.0))
    with pytest.raises(InputError, match="'7D' is a duration, and times are numbers"):
        DeepLFMForecaster(Season("7D"), n_steps=1).fit(numbers)
    with pytest.raises(InputError, match="'soon' is no duration"):
        DeepLFMForecaster(Season("soon"), n_steps=1).fit(frame)


def test_months_are_counted_by_the_calendar() -> None:
    converted = []
    months = pd.date_range("2010-01-31", periods=40, freq="ME")
    frame = pd.DataFrame({"sales": np.sin(np.arange(40))}, index=months)
    model = DeepLFMForecaster(Season(12) + BroadBand(), n_steps=1).fit(frame)
    in_time_units(model.model, lambda period: converted.append(period) or 1.0)
    assert converted == [12]
    assert model.timeline_.length(12) == pytest.approx(365.2425, rel=1e-6)
