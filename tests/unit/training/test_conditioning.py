import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.model import DeepLFM
from deeplfm.training import Phase, Rows, Schedule, StoredRows, train
from deeplfm.training import rows as rows_module
from deeplfm.training.rows import condition, statistics


def table(n_rows: int = 60) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n_rows, 2, generator=generator, dtype=torch.float64)
    y = torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1)
    y[::7, 1] = torch.nan
    weight = torch.rand(n_rows, generator=generator, dtype=torch.float64)
    return Rows(x, y, weight)


def stored(rows: Rows) -> StoredRows:
    return StoredRows(rows.take, len(rows))


def make(weights: str) -> DeepLFM:
    block = BlockConfig(n_features=4)
    layers = LayerConfig(1, (block,)), LayerConfig(2, (block,), weights, own_features=True)
    return DeepLFM(ModelConfig(2, layers, n_samples=2, n_paths=3), seed=0).double()


def test_statistics_of_chunks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, model = table(), make("exact")
    plain = model.statistics(rows.x, rows.y, rows.weight)
    monkeypatch.setattr(rows_module, "_CHUNK_ROWS", 11)
    for found, expected in zip(statistics(model, rows), plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    condition(model, rows)
    by_chunks = model.exact_weights.mean
    model.condition(rows.x, rows.y, rows.weight)
    torch.testing.assert_close(by_chunks, model.exact_weights.mean, rtol=1e-9, atol=1e-9)


def test_conditioning_leaves_other_weights_alone() -> None:
    model = make("full")
    before = model.output_layer.weights.mean.clone()
    condition(model, table())
    assert torch.equal(model.output_layer.weights.mean, before)


@pytest.mark.parametrize(("weights", "objective"), [("mean-field", "elbo"), ("exact", "collapsed")])
@pytest.mark.parametrize("batch_size", [None, 17, 1000])
def test_where_rows_are_kept_does_not_change_a_bit(
    weights: str, objective: str, batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "_CHUNK_ROWS", 25)
    rows, validation = table(), table(9)
    schedule = Schedule(objective, (Phase(6),), batch_size=batch_size, validate_every=2)
    models = [make(weights), make(weights)]
    histories = [
        train(model, source, schedule, seed=1, validation=validation)
        for model, source in zip(models, (rows, stored(rows)), strict=True)
    ]
    assert histories[0].loss == histories[1].loss
    assert histories[0].validation == histories[1].validation
    states = [model.state_dict() for model in models]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_solving_may_be_left_to_the_caller() -> None:
    schedule, rows = Schedule("collapsed", (Phase(3),), batch_size=10), table()
    models = [make("exact"), make("exact")]
    for model, solve in zip(models, (True, False), strict=True):
        train(model, rows, schedule, solve=solve)
    left, right = (model.exact_weights for model in models)
    assert not torch.equal(left.mean, right.mean)
    condition(models[1], rows)
    assert torch.equal(left.mean, right.mean)
