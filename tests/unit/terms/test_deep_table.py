"""The deep model of a table: all of a prediction passes through the hidden layers."""

import numpy as np
import pytest

from deeplfm import DeepLFMRegressor
from deeplfm.terms import DeepTable, parse

N_ROWS = 300
SMALL = DeepTable((4,), n_features=20, n_hidden_features=10)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Two inputs; the target is near 1 or near −1, and which of the two depends on their product."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 2))
    side = np.where(rng.uniform(size=N_ROWS) < 1 / (1 + np.exp(-4 * x[:, 0] * x[:, 1])), 1.0, -1.0)
    return x, side + 0.1 * rng.normal(size=N_ROWS)


def test_all_of_it_passes_through_the_hidden_layer(table) -> None:
    x, y = table
    model = DeepLFMRegressor(SMALL, n_steps=5, progress=False).fit(x, y)
    assert model.hidden_share(x)["y"] == pytest.approx(1.0)
    (member,) = model.model_.members
    assert len(member.layers) == 2
    assert all(block.sees_hidden and not block.sees_original for block in member.layers[1].blocks)


def test_a_mixture_density_without_hidden_layers_has_no_share(table) -> None:
    x, y = table
    model = DeepLFMRegressor("mixture density", n_steps=2, progress=False).fit(x, y)
    assert model.hidden_share(x)["y"] == 0.0


def test_it_learns_two_modes_and_where_each_is_likely(table) -> None:
    x, y = table
    model = DeepLFMRegressor(SMALL, n_steps=150, progress=False).fit(x[:250], y[:250])
    posterior = model.posterior(x[250:])
    density = float(posterior.log_prob(y[250:, None]).mean())
    std = y[:250].std()
    single = (
        -np.log(std)
        - 0.5 * np.log(2 * np.pi)
        - 0.5 * np.mean(((y[250:] - y[:250].mean()) / std) ** 2)
    )
    assert density > single + 0.5  # a Gaussian with the moments of the training targets
    likely = x[250:].prod(1)
    assert np.corrcoef(np.sign(likely), model.predict(x[250:]))[0, 1] > 0.4


def test_dlfm_of_a_table_is_this_model(table) -> None:
    x, y = table
    model = DeepLFMRegressor("dlfm", n_steps=1, progress=False).fit(x, y)
    assert model.model_.members[0].config.n_components == 6
    assert len(model.model_.members[0].layers) == 2


def test_several_outputs_and_missing_targets(table) -> None:
    x, y = table
    both = np.stack([y, -y], axis=1)
    both[::7, 0] = np.nan
    model = DeepLFMRegressor(SMALL, n_steps=3, progress=False).fit(x, both)
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.parametrize("text", ["deeptable", "deeptable(8, 8)", "deeptable(n_features=50)"])
def test_it_can_be_written_as_text(text: str) -> None:
    declared = parse(text)
    assert isinstance(declared, DeepTable)
    assert parse(str(declared)) == declared
