import numpy as np
import pytest
import torch

from deeplfm.predictive.mixture import Predictive


@pytest.fixture
def gaussian():
    """A prediction that is normal in every row: its quantiles are known."""

    def make(mean, std=0.5):
        mean = torch.as_tensor(np.asarray(mean, dtype=np.float64))
        mean = (mean if mean.dim() == 2 else mean[:, None])[None]
        variance = torch.full_like(mean, std**2 / 2)
        weight = torch.ones(1, mean.shape[-1], dtype=torch.float64)
        return Predictive(mean, variance, variance[0], weight, lambda n, seed: mean)

    return make


@pytest.fixture
def drawn():
    """Everything on axes that a legend would name, by its label."""

    def find(ax):
        handles, labels = ax.get_legend_handles_labels()
        return dict(zip(labels, handles, strict=True))

    return find


@pytest.fixture
def edges():
    """Lower and upper edge of a filled band at each of these positions."""

    def find(band, positions):
        vertices = np.concatenate([path.vertices for path in band.get_paths()])
        columns = [vertices[np.isclose(vertices[:, 0], x), 1] for x in positions]
        return np.array([c.min() for c in columns]), np.array([c.max() for c in columns])

    return find
