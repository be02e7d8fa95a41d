"""The share of a forecast that passes through hidden layers, against models where it is known."""

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor

TIME = np.linspace(0, 10, 200)
WAVE = np.exp(np.cos(4 * TIME))


def fitted(declared: str, values: np.ndarray = WAVE) -> DeepLFMRegressor:
    return DeepLFMRegressor(declared, n_steps=5, progress=False).fit(TIME, values)


def test_a_model_without_hidden_layers_has_no_share() -> None:
    assert fitted("sinusoids + broadband").hidden_share(TIME)["y"] == 0


def test_a_model_that_is_all_hidden_has_all() -> None:
    """But for the level, which is found with the phases and is small here."""
    assert fitted("warped").hidden_share(TIME)["y"] > 0.99


def test_the_share_is_that_of_the_variances_of_both_parts() -> None:
    """A cycle of variance v on a slope of variance s: v/(v + s), as the components have it."""
    model = fitted("warped + trend", WAVE + 0.4 * TIME)
    parts = model.components(TIME)["y"].xs("mean", axis=1, level=1)
    through, rest = parts["warped season"].var(ddof=0), parts["trend"].var(ddof=0)
    share = model.hidden_share(TIME)["y"]
    assert share == pytest.approx(through / (through + rest), rel=1e-6)
    assert 0.1 < share < 0.9


def test_a_hidden_layer_whose_weights_are_zero_carries_nothing() -> None:
    """Ablation by hand: the output weights of the deep block are set to zero."""
    model = fitted("deep + sinusoids(2) + broadband")
    layer = model.model_.members[0].output_layer
    assert model.hidden_share(TIME)["y"] > 0
    columns = next(
        columns
        for block, columns in zip(layer.blocks, layer.column_slices(), strict=True)
        if block.name == "deep"
    )
    with torch.no_grad():
        layer.weights.mean[:, columns] = 0
    assert model.hidden_share(TIME)["y"] == 0
