"""How the folds of Cutajar et al. (2017) are cut from the tables as UCI publishes them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from deeplfm.data.places import File
from deeplfm.data.uci import Table

_N_POWERPLANT, _N_PROTEIN, _PROTEIN_SEED = 9568, 45730, 123786
_STATE_WORDS = 624  # of the Mersenne Twister

# Where the test rows of the three folds are among the rows of the power plant in sorted order.
_POWERPLANT_TESTS = """
3155 4186 2714 1491 6488 8125 7450 5586 4205 2400 2605 8651 2072 325 2095 5260 9016 7295 7223 8683
4753 1034 8858 1065 5190 1833 5073 4546 1422 7426 7870 5397 8127 8155 6048 6091 828 7682 4789 5704
7243 1808 7298 5161 5954 8935 702 5643 8973 7140 6302 5637 3960 1501 9505 2116 6359 2947 6374 1049
8781 6171 8322 272 2598 1204 6828 5995 7152 340 644 1251 321 4248 8002 208 301 2045 3459 8105 9129
220 7428 3565 3354 6817 3698 652 6657 7040 4234 5644 6335 8085 2601 8315 3129 8071 6901 7366 8823
5287 8108 2557 8509 7999 5764 5117 6267 6486 3865 2480 9115 1231 2809 5284 1055 5027 5006 5788
6025 6324 6822 438 3763 6435 385 7987 2391 2940 3989 5463 8822 1907 1902 8997 8763 2401 5429 7386
7625 7087 236 654 4293 7494 3997 9008 2590 8498 6712 6234 8617 3392 3894 7201 2615 7931 8311 3750
6726 8619 8345 8793 4183 4621 613 1684 4461 4597 8537 7606 8364 965 718 2751 2106 2548 8182 103
2616 219 6223 911 9050 1628 5236 1559 1951 3151 6008 6077 4285 4073 6096 6245 2450 2169 8035 6779
7279 4735 1211 7265 3737 2511 8312 8887 7209 3165 7318 7211 1486 3367 9112 9383 2227 442 6715 7884
4460 3963 5098 5478 5880 4970 587 3612 5300 3185 2713 3507 3132 7958 950 8740 273 2646 4323 4788
3517 8630 7791 2249 7139 4393 9188 4868 6761 1633 8557 6908 988 2385 1894 7788 1844 4599 1751 6662
98 3102 1668 2709 4430 7726 5348 6577 7694 7202 6074 2723 1170 8584 5881 5066 2623 6675 5373 7444
5998 3105 1325 5438 3576 4161 1981 4717 485 4924 2181 8626 8792 8310 1019 7746
"""


def _sorted_rows(values: Float64[ndarray, "N C"]) -> Float64[ndarray, "N C"]:
    """Rows in the order of their first column, then of the second, and so on.

    Which order the rows had when the folds were made is not known; this one can be had again.
    """
    return values[np.lexsort(values.T[::-1])]


def _powerplant_order() -> Int64[ndarray, " N"]:
    tests = np.array(_POWERPLANT_TESTS.split(), dtype=np.int64)
    return np.concatenate([tests, np.setdiff1d(np.arange(_N_POWERPLANT), tests)])


def _with_rounded_f5(values: Float64[ndarray, "N C"]) -> Float64[ndarray, "N C"]:
    """The folds were cut from a copy of the table with ten digits of F5."""
    rounded = values.copy()
    rounded[:, 4] = [_ten_digits(value) for value in values[:, 4].tolist()]
    return rounded


def _ten_digits(value: float) -> float:
    number = Decimal(repr(value))
    return float(number.quantize(Decimal(1).scaleb(number.adjusted() - 9), ROUND_HALF_UP))


def _protein_order() -> Int64[ndarray, " N"]:
    """``set.seed(123786); sample(45730)`` of R before version 3.6, less one."""
    word, words = _PROTEIN_SEED, []
    for _ in range(50 + 1 + _STATE_WORDS):  # R drops the first 50, and one for its counter
        word = (69069 * word + 1) % 2**32
        words.append(word)
    twister = np.random.MT19937()
    key = np.array(words[-_STATE_WORDS:], dtype=np.uint32)
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _STATE_WORDS}}
    left, order = list(range(_N_PROTEIN)), []
    for uniform in (twister.random_raw(_N_PROTEIN) * 2.3283064365386963e-10).tolist():
        place = int(len(left) * uniform)
        order.append(left[place])
        left[place] = left[-1]
        left.pop()
    return np.array(order, dtype=np.int64)


def _fold_files(name: str, *digests: str) -> tuple[File, ...]:
    return tuple(File(f"{name}_fold{fold}.npz", digest) for fold, digest in enumerate(digests, 1))


POWERPLANT = Table(
    name="powerplant",
    path="294/data.csv",
    inputs=("AT", "V", "AP", "RH"),
    target="PE",
    arrange=_sorted_rows,
    sha256="de02023f4e7f10d6743e3b661e4b02f0459e8d190e83ea3ed50e0e4fb414da4b",
    order=_powerplant_order,
    n_test=(99, 99, 98),
    folds=_fold_files(
        "powerplant",
        "100f75b3b0790bc3aec172248bc87b061e088a6fe80eb635a4fba3e21bf67f33",
        "e7116694493c281207f5453e9c11e039916344617dbad6adad9e957bab7d2942",
        "166c1bbd2cd127c6cf9457ade4a21b2ed858bc26aef4f1ee665e67a6fc668a59",
    ),
)

PROTEIN = Table(
    name="protein",
    path="265/physicochemical+properties+of+protein+tertiary+structure.zip",
    inputs=tuple(f"F{number}" for number in range(1, 10)),
    target="RMSD",
    arrange=_with_rounded_f5,
    sha256="15ee1e702d680975fc1db02dd508dfe1e091329cb1dcc707e8890538c3c76889",
    order=_protein_order,
    n_test=(215, 215, 215),
    folds=_fold_files(
        "protein",
        "c4334340a1ee7fa29956e38680ffd9a2c143edb0ce334173b253b22046fc5b9a",
        "e5002e268bde541525c9b81f086bb80dacfadda8620c63353d7862baba0453eb",
        "ce7fdcc029e09d79a20e7e56f4bb49ea71e2a83b6f27eb49392ca70ddafbc870",
    ),
)
