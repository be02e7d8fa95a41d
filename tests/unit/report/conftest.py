import pandas as pd
import pytest
from sample_series import quick, waves

from deeplfm.estimators import DeepLFMForecaster


@pytest.fixture(scope="session")
def record() -> pd.DataFrame:
    return waves().iloc[:90]


@pytest.fixture(scope="session")
def later() -> pd.DataFrame:
    return waves().iloc[90:]


@pytest.fixture(scope="session")
def forecaster(record: pd.DataFrame) -> DeepLFMForecaster:
    return quick().fit(record, time="time")
