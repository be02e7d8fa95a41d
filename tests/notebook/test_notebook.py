"""In a notebook figures are pictures, fits show a bar, and estimators and posteriors are tables."""

import base64

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    "import numpy as np, pandas as pd\nfrom deeplfm import DeepLFMForecaster\n"
    "days = pd.date_range('2024-01-01', periods=60)\n"
    "frame = pd.DataFrame({'load': 50 + 9 * np.sin(np.arange(60) * 2 * np.pi / 12)}, index=days)\n"
    "model = DeepLFMForecaster('trend + season(12) + broadband', n_steps=5).fit(frame)",
    "model.plot(12)",
    "model",
    "model.posterior(days[:12])",
    "model.selection_",
    "DeepLFMForecaster()",
    "model.plot_components(12)",
]


@pytest.fixture(scope="module")
def outputs() -> list[list[dict]]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def html(outputs: list[dict]) -> str:
    return "".join(str(item.get("data", {}).get("text/html", "")) for item in outputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_shows_what_a_terminal_cannot(outputs: list[list[dict]]) -> None:
    bar, plot, model, posterior, selection, unfitted, components = outputs
    assert not [item for cell in outputs for item in cell if item.get("output_type") == "error"]
    assert "<div></div>" in html(bar)  # the bar, which has disappeared
    for cell in (plot, components):
        assert base64.b64decode(cell[0]["data"]["image/png"]).startswith(b"\x89PNG")
    assert "60, from 2024-01-01 to 2024-02-29" in html(model)
    assert "12 rows; the first 10 are shown" in html(posterior)
    assert "trend + season(12) + broadband" in html(selection)
    assert "fitted</p>" not in html(unfitted) and "DeepLFMForecaster" in html(unfitted)
