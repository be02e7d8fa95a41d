import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import TrainingDivergedError, UnsuitableError
from deeplfm.model import DeepLFM
from deeplfm.selection import split as split_module
from deeplfm.selection.average import (
    choose_members,
    forecast_weights,
    gap_weights,
    pooled_over_outputs,
    probability_of_best,
    series_weights,
    stacking_weights,
)
from deeplfm.selection.candidate import Candidate, FittedCandidate, Score
from deeplfm.selection.fitting import INFLATIONS, calibrate, fit_candidate
from deeplfm.selection.record import Selection
from deeplfm.selection.select import compare, select
from deeplfm.selection.split import hide_like_gaps, hold_out
from deeplfm.training import Phase, Rows, Schedule, StoredRows, interruption
from deeplfm.training.interruption import within
from deeplfm.training.loop import _Run
from deeplfm.training.schedule import History


def wave(n_rows: int = 120) -> Rows:
    x = torch.linspace(0, 1, n_rows, dtype=torch.float64)[:, None]
    noise = 0.1 * torch.randn(n_rows, 1, generator=torch.Generator().manual_seed(0)).double()
    return Rows(x, torch.sin(30 * x) + noise)


def candidate(name: str, frequency: float, noise: float = 0.01) -> Candidate:
    """One line at a given frequency, not trained."""

    def build(rows: Rows, seed: int) -> DeepLFM:
        block = BlockConfig(n_features=1, frequencies="nodes", options={"lower_limit": -math.inf})
        layer = LayerConfig(1, (block,), "exact", own_features=True)
        model = DeepLFM(ModelConfig(1, (layer,), n_samples=1, n_paths=1), seed).double()
        features = model.output_layer.blocks[0].features
        with torch.no_grad():
            features.center.fill_(frequency)
            features.raw_sensitivity.fill_(frequency)
            model.likelihood.log_variance.fill_(math.log(noise))
        return model

    return Candidate(name, build, Schedule("collapsed", (Phase(0),), batch_size=None))


def test_the_right_candidate_is_selected_and_refitted_on_all_rows() -> None:
    rows = wave()
    stack, report = select(
        [candidate("wrong", 9.0), candidate("right", 30.0)], rows, is_series=True
    )
    assert report.names == ["right"]
    assert report.held_out_mnll["right"][0] < report.held_out_mnll["wrong"][0] - 1
    (member,) = stack.members
    gram, _ = member.statistics(rows.x, rows.y)
    expected = torch.eye(gram.shape[-1]) + gram / member.temperature[0]
    torch.testing.assert_close(member.exact_weights.precision, expected)


def failing(name: str, error: Exception) -> Candidate:
    def build(rows: Rows, seed: int) -> DeepLFM:
        raise error

    return replace(candidate(name, 1.0), build=build)


def test_a_selection_in_processes_is_the_same() -> None:
    rows = wave()
    recipes = [
        failing("short", UnsuitableError("needs more rows")),
        candidate("wrong", 9.0),
        failing("wild", TrainingDivergedError("left")),
        candidate("right", 30.0),
        candidate("near", 30.01),
    ]
    one, two = (select(recipes, rows, is_series=True, n_jobs=n_jobs) for n_jobs in (1, 2))
    for _, selection in (one, two):
        assert all(item.seconds > 0 for item in selection.candidates)
        for item in selection.candidates:
            item.seconds, item.history = 0.0, None  # which has seconds too
    assert one[1] == two[1]
    assert two[1].unsuitable == {"short": "needs more rows"} and two[1].failed == {"wild": "left"}
    ahead = rows.x + 1.0
    for here, there in zip(one[0].members, two[0].members, strict=True):
        assert here.posterior(ahead).mean.equal(there.posterior(ahead).mean)


def trained(n_steps: int) -> Candidate:
    schedule = Schedule("collapsed", (Phase(n_steps),), batch_size=None, learning_rate=1e-4)
    return replace(candidate("right", 30.0), schedule=schedule)


@pytest.mark.parametrize(("n_cut", "is_kept"), [(1, False), (4, False), (5, True), (9, True)])
def test_a_refit_that_runs_out_of_time_counts_if_it_came_far(
    n_cut: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, n_all = wave(), len(wave())
    step = _Run._step

    def count(run: _Run, *arguments: object) -> None:
        step(run, *arguments)
        if len(run.rows) == n_all and run.step == n_cut:
            interruption._deadline.set(-math.inf)

    monkeypatch.setattr(_Run, "_step", count)
    with within(1000):
        ready = compare([trained(10)], rows, is_series=True)
        _, report = ready.refit(rows)
    history = report.histories["right"]
    assert (history.stopped, len(history.loss)) == ("time", n_cut if is_kept else 10)
    assert not report.interrupted


def test_without_time_for_refits_only_the_last_layer_is_solved_on_all_rows() -> None:
    rows = wave()
    ready = compare([trained(3)], rows, is_series=True)
    with within(-1):
        stack, report = ready.refit(rows)
    assert (report.histories["right"].stopped, len(report.histories["right"].loss)) == ("time", 3)
    (member,) = stack.members
    gram, _ = member.statistics(rows.x, rows.y)
    expected = torch.eye(gram.shape[-1]) + gram / member.temperature[0]
    torch.testing.assert_close(member.exact_weights.precision, expected)


def smooth(name: str) -> Candidate:
    """A smooth function without a rhythm, not trained: it knows what is between rows, not what comes."""

    def build(rows: Rows, seed: int) -> DeepLFM:
        block = BlockConfig("eq", n_features=100, frequencies="prior-fixed", extras=("constant",))
        layer = LayerConfig(1, (block,), "exact", own_features=True)
        model = DeepLFM(ModelConfig(1, (layer,), n_samples=1, n_paths=1), seed).double()
        with torch.no_grad():
            model.output_layer.blocks[0].features.log_lengthscale.fill_(math.log(0.05))
            model.likelihood.log_variance.fill_(math.log(0.01))
        return model

    return Candidate(name, build, Schedule("collapsed", (Phase(0),), batch_size=None))


def with_gaps() -> Rows:
    """A wave that goes on, beside a swell that has ended, and two gaps."""
    rows = wave(400)
    swell = 2 * torch.exp(-0.5 * ((rows.x - 0.35) / 0.12) ** 2)
    y = rows.y + swell
    y[60:70], y[150:160] = torch.nan, torch.nan
    return Rows(rows.x, y)


def test_candidates_for_gaps_are_scored_in_gaps_and_others_on_the_tail() -> None:
    rows = with_gaps()
    stack, report = select([candidate("line", 30.0), smooth("smooth")], rows, is_series=True)
    assert report.weight["line"][0] > 0.9
    assert report.weight_in_gaps["smooth"][0] > 0.9
    assert report.members[-1] == "smooth" and report.is_for_gaps[-1]
    truth = torch.sin(30 * rows.x) + 2 * torch.exp(-0.5 * ((rows.x - 0.35) / 0.12) ** 2)
    is_gap = rows.y.isnan()[:, 0]
    error = (stack.posterior(rows.x).mean - truth)[is_gap]
    assert float(error.abs().max()) < 0.3
    alone, _ = select([candidate("line", 30.0)], rows, is_series=True)
    assert float((alone.posterior(rows.x).mean - truth)[is_gap].abs().max()) > 0.6


def test_without_gaps_there_is_one_set_of_weights() -> None:
    _, report = select([candidate("line", 30.0), smooth("smooth")], wave(400), is_series=True)
    assert report.weight_in_gaps == {}
    assert report.names == ["line"]


def test_candidates_that_do_not_fill_gaps_are_not_scored_there() -> None:
    rows, seen = with_gaps(), []
    plain = candidate("line", 30.0)

    def build(given: Rows, seed: int) -> DeepLFM:
        seen.append(int((~given.y.isnan()).sum()))
        return plain.build(given, seed)

    for fills_gaps, expected in ((False, [280, 380]), (True, [280, 270, 380])):
        line = Candidate("line", build, plain.schedule, fills_gaps=fills_gaps)
        seen.clear()
        _, report = select([line, smooth("smooth")], rows, is_series=True)
        # without the tail; without five copies of two gaps, eleven rows each; all that is known
        assert seen == expected
        assert fills_gaps or report.weight_in_gaps == {"smooth": [1.0]}


def test_a_copy_for_gaps_has_a_calibration_of_its_own() -> None:
    """What comes is nowhere near what a smooth function expects; in gaps it is right."""
    rows = with_gaps()
    rows.y[300:] += 3
    stack, report = select([smooth("smooth"), smooth("again")], rows, is_series=True)
    members = list(zip(report.members, report.is_for_gaps, strict=True))
    ahead, in_gaps = (members.index(("smooth", for_gaps)) for for_gaps in (False, True))
    assert stack.members[ahead].temperature > 10 * stack.members[in_gaps].temperature


def test_a_candidate_that_diverges_is_reported_and_left_out() -> None:
    def fail(rows: Rows, seed: int) -> DeepLFM:
        raise TrainingDivergedError("no luck")

    broken = Candidate("broken", fail, Schedule("collapsed"))
    _, report = select([broken, candidate("right", 30.0)], wave(), is_series=True)
    assert report.failed == {"broken": "no luck"}
    with pytest.raises(TrainingDivergedError, match="none of 1 candidates"):
        select([broken], wave(), is_series=True)


def test_a_series_is_judged_by_its_last_rows_and_a_table_by_random_ones() -> None:
    rows = wave(100)
    shuffled = rows.take(torch.randperm(100, generator=torch.Generator().manual_seed(1)))
    inner, held_out = hold_out(shuffled, is_series=True, seed=0)
    assert len(held_out) == 25
    assert inner.x.max() < held_out.x.min()
    inner, held_out = hold_out(rows, is_series=False, seed=0)
    assert len(held_out) == 20
    assert inner.x.max() > held_out.x.min()
    together = torch.cat([inner.x, held_out.x]).sort(0).values
    torch.testing.assert_close(together, rows.x)


@pytest.mark.parametrize("is_series", [True, False])
def test_of_very_many_rows_a_bounded_number_is_held_out(
    is_series: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_module, "_MOST_HELD_OUT", 7)
    rows = wave(100)
    for source in (rows, StoredRows(rows.take, 100)):
        inner, held_out = hold_out(source, is_series, seed=0)
        assert len(held_out) == 7
        together = torch.cat([inner.everything().x, held_out.x]).sort(0).values
        torch.testing.assert_close(together, rows.x)
        assert bool(inner.everything().x.max() < held_out.x.min()) == is_series
    other = hold_out(rows, is_series, seed=1)[1]
    assert torch.equal(other.x, held_out.x) == is_series


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_initialisation_reads_the_end_of_a_long_series_and_all_parts_of_a_long_table(
    n_inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    def build(rows: Rows, seed: int) -> DeepLFM:
        seen.extend(rows.x[:, 0].tolist())
        block = BlockConfig("eq", n_features=1)
        return DeepLFM(ModelConfig(n_inputs, (LayerConfig(1, (block,)),), n_samples=1, n_paths=1))

    monkeypatch.setattr(split_module, "MOST_SERIES_ROWS", 4)
    monkeypatch.setattr(split_module, "_MOST_TABLE_ROWS", 4)
    x = torch.arange(10.0)[:, None].expand(-1, n_inputs)
    candidate = Candidate("any", build, Schedule(phases=(Phase(0),)))
    fit_candidate(candidate, Rows(x, x[:, :1]), is_series=n_inputs == 1, seed=0)
    assert seen == ([6, 7, 8, 9] if n_inputs == 1 else [0, 2, 5, 7])


def test_a_selection_on_stored_rows_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_module, "_MOST_HELD_OUT", 20)
    rows = wave()
    for is_series in (True, False):
        stacks = [
            select([candidate("wrong", 9.0), candidate("right", 30.0)], source, is_series)[0]
            for source in (rows, StoredRows(rows.take, len(rows)))
        ]
        found, expected = (stack.posterior(rows.x) for stack in stacks)
        assert torch.equal(found.mean, expected.mean)
        assert torch.equal(found.std(), expected.std())


def test_calibration_finds_noise_that_training_missed() -> None:
    rows = wave()
    inner, held_out = hold_out(rows, is_series=True, seed=0)
    model = candidate("right", 30.0, noise=0.002).build(inner, 0)  # the truth is 0.01
    model.condition(inner.x, inner.y)
    before = model.posterior(held_out.x).log_prob(held_out.y).mean()
    calibrate(model, inner, held_out)
    after = model.posterior(held_out.x).log_prob(held_out.y).mean()
    assert after > before
    assert 2 < float(model.likelihood.inflation) < 8


def test_without_a_held_out_target_calibration_is_that_of_its_prior() -> None:
    """Twice the temperature is half as likely: on 1, 2, 4, … log₂ has the mean Σ k 2⁻ᵏ / Σ 2⁻ᵏ."""
    rows = wave()
    inner, held_out = hold_out(rows, is_series=True, seed=0)
    model = candidate("right", 30.0).build(inner, 0)
    calibrate(model, inner, Rows(held_out.x, torch.full_like(held_out.y, torch.nan)))
    doublings = sum(k / 2**k for k in range(8)) / sum(1 / 2**k for k in range(8))
    assert float(model.temperature) == pytest.approx(2**doublings)
    prior = [1 / math.sqrt(inflation) for inflation in INFLATIONS]
    logs = [math.log(inflation) for inflation in INFLATIONS]
    expected = math.exp(sum(map(math.prod, zip(prior, logs, strict=True))) / sum(prior))
    assert float(model.likelihood.inflation) == pytest.approx(expected)


def test_held_out_rows_of_next_to_no_weight_do_not_calibrate() -> None:
    rows = wave()
    inner, held_out = hold_out(rows, is_series=True, seed=0)
    weight = torch.ones(len(held_out), dtype=torch.float64)
    weight[::2] = 1e-9
    wrong = torch.where(weight[:, None] == 1, held_out.y, 100.0)
    empty = torch.where(weight[:, None] == 1, held_out.y, torch.nan)
    found = []
    for judges in (Rows(held_out.x, wrong, weight), Rows(held_out.x, empty)):
        model = candidate("right", 30.0, noise=0.002).build(inner, 0)
        calibrate(model, inner, judges)
        found.append(float(model.likelihood.inflation))
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_few_held_out_rows_hardly_move_what_is_fitted_to_known_ones() -> None:
    """The model is right, and 15 rows cannot say so: its temperature must not shrink the function."""
    rows = wave(60)
    inner, held_out = hold_out(rows, is_series=True, seed=0)
    model = candidate("right", 30.0).build(inner, 0)
    calibrate(model, inner, held_out)
    assert float(model.temperature) < 2


def test_stacking_weights_of_a_known_mixture() -> None:
    """Rows come from two known densities in the ratio 7 : 3; the weights find it within 0.1."""
    generator = torch.Generator().manual_seed(0)
    from_first = torch.rand(4000, 1, generator=generator) < 0.7
    rows = torch.randn(4000, 1, generator=generator) + torch.where(from_first, 0.0, 1.2)
    normal = torch.distributions.Normal(torch.tensor([[[0.0]], [[1.2]]]), 1.0)
    weight = stacking_weights(normal.log_prob(rows).double())
    assert float(weight[0, 0]) == pytest.approx(0.7, abs=0.1)
    assert float(weight.sum()) == pytest.approx(1)


stacked = partial(stacking_weights, most_prior=math.inf)  # as in a series


def test_of_many_rows_of_a_table_a_bad_member_keeps_next_to_nothing() -> None:
    """Half a nat behind in each of 1000 rows; in a series it would keep its share of 5 %."""
    density = torch.stack([torch.full((1000, 1), 0.5), torch.zeros(1000, 1)]).double()
    assert 0 < float(stacking_weights(density)[1, 0]) < 0.003
    assert float(stacked(density)[1, 0]) > 0.04


def pooled_probability_of_best(
    density: torch.Tensor, margin: torch.Tensor | None = None
) -> torch.Tensor:
    return pooled_over_outputs(probability_of_best(density, margin))


def test_weights_of_one_output_are_half_stacked_and_half_the_probability_of_the_best() -> None:
    density = torch.stack([torch.full((100, 1), 0.1), *torch.zeros(4, 100, 1)]).double()
    expected = (stacked(density) + probability_of_best(density)) / 2
    torch.testing.assert_close(series_weights(density), expected)
    assert float(series_weights(density)[0, 0]) > 0.5


def test_a_lead_that_all_outputs_share_leaves_stacking_no_word() -> None:
    """Both outputs are sure of one start by e⁵⁰; stacking alone grants four others a share."""
    density = torch.stack([torch.full((100, 2), 0.5), *torch.zeros(4, 100, 2)]).double()
    assert bool((stacked(density)[0] < 0.9).all())
    torch.testing.assert_close(series_weights(density)[0], torch.ones(2).double())


@pytest.mark.parametrize("best", [(0, 1), (0, 0, 1)])
def test_outputs_with_different_best_candidates_are_half_stacked(best: tuple[int, ...]) -> None:
    is_best = torch.nn.functional.one_hot(torch.tensor(best), 3).T.double()  # B D
    density = 0.5 * is_best[:, None].repeat(1, 100, 1)
    expected = (stacked(density) + is_best) / 2
    torch.testing.assert_close(series_weights(density), expected)


def test_outputs_that_agree_on_a_candidate_with_a_margin_are_half_stacked() -> None:
    density = torch.stack([torch.full((100, 2), 0.5), torch.zeros(100, 2)]).double()
    margin = torch.tensor([0.2, 0.0]).double()
    expected = (stacked(density, margin) + torch.eye(2)[:, :1]) / 2
    torch.testing.assert_close(series_weights(density, margin), expected)


def test_an_output_without_rows_confirms_no_more_than_chance() -> None:
    """Two starts are equally probable there: the other output's is the same one with one half."""
    density = torch.stack([torch.full((100, 2), 0.5), torch.zeros(100, 2)]).double()
    density[:, :, 1] = torch.nan
    expected = 0.25 * stacked(density)[0, 0] + 0.75
    torch.testing.assert_close(series_weights(density)[0, 0], expected)


def test_a_small_lead_in_every_part_of_a_series_decides() -> None:
    """exp(0.1 · 100) to 1, however the parts are weighted; a draw of the rows could not tell."""
    density = torch.stack([torch.full((100, 1), 0.1), *torch.zeros(4, 100, 1)]).double()
    weight = probability_of_best(density)
    assert float(weight[0, 0]) == pytest.approx(math.exp(10) / (math.exp(10) + 4))
    assert float(stacked(density)[0, 0]) < 0.5


def test_a_lead_that_rests_on_one_part_of_a_series_is_worth_little() -> None:
    """Ahead by 6 in one part, behind by 1 in the others: best where that part's share is above 1/7.

    Shares of four parts are uniform on the simplex, so that this has probability (6/7)³; the sum of
    all rows alone would say 1.
    """
    lead = torch.cat([torch.full((25,), 0.86), torch.full((75,), -0.86 / 6)]).double()[:, None]
    weight = probability_of_best(torch.stack([lead, 0 * lead]))
    assert float(weight[0, 0]) == pytest.approx((6 / 7) ** 3, abs=0.1)


@pytest.mark.parametrize(
    ("weights_of", "unknown"),
    [(stacking_weights, [0.5, 0.5]), (pooled_probability_of_best, [0.75, 0.25])],
)
def test_hopeless_members_get_nothing_and_unknown_outputs_no_opinion_of_their_own(
    weights_of: Callable[[torch.Tensor], torch.Tensor], unknown: list[float]
) -> None:
    """In a series the other output speaks with probability one half."""
    density = torch.stack([torch.zeros(10, 2), torch.full((10, 2), -5.0)]).double()
    density[:, :, 1] = torch.nan
    weight = weights_of(density)
    assert weight[:, 0].tolist() == [1.0, 0.0]
    assert weight[:, 1].tolist() == pytest.approx(unknown)


def test_an_output_with_clear_evidence_keeps_its_own_member() -> None:
    """Nine outputs for one member, each worth 3 to 1; the tenth is sure of the other by e⁻⁵⁰."""
    lead = torch.full((100, 10), 0.5).double()
    lead[:, 9] = -0.5
    weight = pooled_probability_of_best(torch.stack([lead, 0 * lead]))
    assert float(weight[1, 9]) > 0.999
    assert bool((weight[0, :9] > 0.999).all())


@pytest.mark.parametrize("weights_of", [stacking_weights, pooled_probability_of_best])
@pytest.mark.parametrize(("lead", "share"), [(0.1, 0.0), (0.6, 0.5)])
def test_a_handicap_must_be_overcome(
    lead: float, share: float, weights_of: Callable[..., torch.Tensor]
) -> None:
    density = torch.stack([torch.zeros(50, 1), torch.full((50, 1), lead)]).double()
    weight = weights_of(density, torch.tensor([0.0, 0.2]))
    assert float(weight[1, 0]) >= share
    assert (float(weight[1, 0]) == 0) == (share == 0)


@pytest.mark.parametrize(("n_rows", "is_believed"), [(20, False), (40, True)])
def test_few_rows_need_a_larger_lead(n_rows: int, is_believed: bool) -> None:
    """Half a nat per row: ten over all, which one of many chances may reach; or twenty."""

    def entrant(name: str, margin: float, density: float) -> FittedCandidate:
        row = torch.full((n_rows, 1), density).double()
        judged = Score(row[0], row[0], row, row, torch.ones_like(row))
        return FittedCandidate(
            replace(candidate(name, 30.0), margin=margin), None, History(), judged
        )

    weight = forecast_weights([entrant("plain", 0, 0), entrant("found", 0.2, 0.5)], is_series=True)
    assert (float(weight[1, 0]) > 0) == is_believed


def test_a_candidate_for_gaps_is_compared_where_there_are_gaps_and_forecasts_nothing() -> None:
    for_gaps = replace(smooth("smooth"), margin=math.inf)
    stack, report = select([candidate("line", 30.0), for_gaps], with_gaps(), is_series=True)
    assert report.weight == {"line": [1.0]}
    assert report.weight_in_gaps["smooth"][0] > 0.9
    assert len(stack.members) == 2
    _, report = select([candidate("line", 30.0), for_gaps], wave(400), is_series=True)
    assert list(report.held_out_mnll) == ["line"]


def test_a_leader_without_weight_does_not_change_the_others() -> None:
    """A start for gaps alone that also forecasts best, by far."""
    for_gaps = replace(candidate("right", 30.0), margin=math.inf)
    _, report = select(
        [candidate("wrong", 9.0), smooth("smooth"), for_gaps], with_gaps(), is_series=True
    )
    assert "right" not in report.weight and "right" not in report.held_out_mnll
    assert sum(weight[0] for weight in report.weight.values()) == pytest.approx(1.0)
    assert all(math.isfinite(error) for error in report.held_out_nmse)


def test_a_candidate_that_fails_in_gaps_still_forecasts() -> None:
    line, n_built = candidate("line", 30.0), []

    def build(rows: Rows, seed: int) -> DeepLFM:
        n_built.append(1)
        if len(n_built) == 2:
            raise TrainingDivergedError("no luck in gaps")
        return line.build(rows, seed)

    unlucky = replace(line, build=build)
    _, report = select([unlucky, smooth("smooth")], with_gaps(), is_series=True)
    assert report.weight["line"][0] > 0.9 and report.weight_in_gaps == {"smooth": [1.0]}
    assert not report.failed


def test_without_scores_in_gaps_the_weights_of_the_tail_hold() -> None:
    silent = [
        replace(item, fills_gaps=False) for item in (candidate("line", 30.0), smooth("smooth"))
    ]
    stack, report = select(silent, with_gaps(), is_series=True)
    assert report.weight_in_gaps == {}
    torch.testing.assert_close(stack.weight_in_gaps, stack.weight)


def test_an_output_without_gaps_keeps_the_weights_of_the_tail() -> None:
    two = Score(
        torch.ones(2), torch.ones(2), torch.zeros(3, 2), torch.zeros(3, 2), torch.ones(3, 2)
    )
    known = torch.tensor([[0.0, torch.nan]] * 3)
    entrants = [
        FittedCandidate(item, item.build(wave(), 0), History(), two, two._replace(density=known))
        for item in (candidate("first", 30.0), candidate("second", 9.0))
    ]
    in_gaps = gap_weights(entrants)
    torch.testing.assert_close(in_gaps, torch.tensor([[0.5, 0.0], [0.5, 0.0]]))
    chosen = choose_members(entrants, torch.tensor([[0.9, 0.8], [0.1, 0.2]]), in_gaps)
    shares = torch.stack([weight for item in chosen for _, weight in item.members]).sum(0)
    torch.testing.assert_close(shares, torch.ones(2, 2))
    torch.testing.assert_close(chosen[0].weight[1], torch.tensor([0.0, 0.8]))


@pytest.mark.parametrize("weights_of", [stacking_weights, series_weights])
def test_a_row_of_weight_three_counts_as_three(weights_of: Callable[..., torch.Tensor]) -> None:
    density = torch.randn(3, 8, 1, generator=torch.Generator().manual_seed(0)).double()
    count = torch.tensor([3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0]).double()  # parts stay halves
    repeated = density.repeat_interleave(count.long(), dim=1)
    weighted = weights_of(density, None, count[:, None])
    assert not torch.allclose(weighted, weights_of(density))
    if weights_of is stacking_weights:
        torch.testing.assert_close(weighted, weights_of(repeated))
    none = torch.zeros_like(count)
    torch.testing.assert_close(
        weights_of(density, None, none[:, None]), torch.full((3, 1), 1 / 3).double()
    )


def test_initialisation_of_a_series_ignores_targets_of_next_to_no_weight() -> None:
    weight = torch.ones(len(wave())).double()
    weight[3], weight[5], weight[-20:] = 1e-6, 0.5, 1e-3
    rows = replace(wave(), weight=weight)
    shown = split_module.rows_to_initialise(rows, is_series=True)
    light = [3, *range(len(rows) - 20, len(rows))]
    assert shown.y.isnan().nonzero()[:, 0].tolist() == light
    late = torch.where(weight[:, None] == 1e-3, rows.y, torch.nan)  # all of it is light
    rows = replace(rows, y=torch.cat([rows.y, late], dim=1))
    shown = split_module.rows_to_initialise(rows, is_series=True)
    assert not bool(shown.y[-20:, 1].isnan().any())
    assert split_module.rows_to_initialise(rows, is_series=False) is rows


@pytest.mark.parametrize("is_series", [True, False])
def test_wrong_rows_of_next_to_no_weight_are_as_good_as_missing(is_series: bool) -> None:
    rows = wave()
    weight = torch.ones(len(rows)).double()
    weight[::7] = 1e-9
    wrong = Rows(rows.x, torch.where(weight[:, None] == 1, rows.y, 100.0), weight)
    missing = Rows(rows.x, torch.where(weight[:, None] == 1, rows.y, torch.nan))
    entrants = [candidate("right", 30.0, noise=0.002), candidate("wrong", 9.0)]
    found, expected = (select(entrants, rows, is_series)[1] for rows in (wrong, missing))
    assert found.held_out_mnll["right"] == pytest.approx(expected.held_out_mnll["right"], rel=1e-3)
    assert found.held_out_nmse == pytest.approx(expected.held_out_nmse, rel=1e-3)
    assert found.weight["right"] == pytest.approx(expected.weight["right"], rel=1e-3)


def test_values_hidden_like_gaps_keep_their_weights() -> None:
    rows = with_gaps()
    weight = torch.linspace(1, 2, len(rows)).double()
    _, hidden = hide_like_gaps(replace(rows, weight=weight))
    place = {float(x): float(w) for x, w in zip(rows.x[:, 0], weight, strict=True)}
    assert hidden is not None
    assert hidden.weight.tolist() == [place[float(x)] for x in hidden.x[:, 0]]


def test_a_table_shows_every_candidate_once_with_the_reason_why_it_is_left_out() -> None:
    candidates = [
        candidate("wrong", 9.0),
        failing("wild", TrainingDivergedError("left")),
        candidate("right", 30.0),
        replace(smooth("smooth"), margin=math.inf),
    ]
    _, selection = select(candidates, wave(), is_series=True)
    selection.log_jacobian = [2.0]
    table = selection.table(["load"])
    assert list(table.columns) == ["load_mnll", "load_weight", "seconds", "left_out"]
    assert list(table.index) == ["right", "wrong", "wild", "smooth"]  # the best score first
    assert table["load_mnll"]["right"] == selection.held_out_mnll["right"][0] + 2
    assert table["load_mnll"].isna().tolist() == [False, False, True, True]
    assert table["load_weight"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert (table["seconds"][:3] > 0).all()
    assert table["left_out"]["right"] == "" and table["left_out"]["wild"] == "left"
    assert "weight" in table["left_out"]["wrong"] and "gaps" in table["left_out"]["smooth"]
    assert Selection.from_dict(asdict(selection)) == selection


def test_a_table_of_a_series_with_gaps_has_the_weights_in_gaps_too() -> None:
    _, selection = select([candidate("line", 30.0), smooth("smooth")], with_gaps(), is_series=True)
    table = selection.table(["y"])
    assert table["y_weight_in_gaps"]["smooth"] > 0.9
    assert table["y_weight"]["line"] > 0.9
    assert table[["y_weight", "y_weight_in_gaps"]].sum().tolist() == pytest.approx([1.0, 1.0])
