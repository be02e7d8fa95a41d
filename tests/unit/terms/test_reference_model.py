"""The reference model in an estimator: as a name, as text, with its own parts, saved and loaded."""

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.terms import Reference, parse

TIME = np.linspace(0, 10, 40)
WAVES = np.stack([np.sin(2 * TIME), np.cos(3 * TIME)], 1)


def test_it_is_a_text_and_a_declaration():
    assert parse("reference(6, n_features=20)") == Reference((6,), n_features=20)
    assert parse(str(Reference((3, 3), n_forces=2))) == Reference((3, 3), n_forces=2)


@pytest.mark.parametrize("model", ["reference", Reference((2,), n_features=5, n_samples=4)])
def test_it_is_fitted_saved_and_loaded(model, tmp_path):
    fitted = DeepLFMRegressor(model=model, n_steps=3, random_state=0).fit(TIME, WAVES)
    (member,) = fitted.model_.members
    output = member.output_layer
    assert len(member.likelihood.log_variance) == 1
    assert len(output.blocks[0].frequencies.mean) == 1
    assert len(output.blocks[0].features.decay) == 2
    assert output.kl_weight == 2
    mean, std = fitted.predict(TIME, return_std=True)
    assert mean.shape == std.shape == (40, 2) and np.isfinite([mean, std]).all()
    fitted.save(tmp_path / "model")
    loaded = DeepLFMRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TIME), mean)
    assert torch.equal(loaded.model_.members[0].kl(), member.kl())
