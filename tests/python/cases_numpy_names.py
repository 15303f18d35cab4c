"""Functions under the names that NumPy gives them; their tests are of their own."""

CASES: list = []

_TESTS = {
    "test_passing_over_nan": ("nanmedian", "nanargmax", "nanargmin", "nancumsum", "nancumprod"),
    "test_methods_of_quantiles": ("nanquantile", "nanpercentile"),
    "test_other_functions": (
        "atleast_1d", "atleast_2d", "atleast_3d", "dstack", "nan_to_num", "copy", "average", "apply_along_axis",
    ),
}  # fmt: skip

DEDICATED = {name: f"test_numpy_names.py::{test}" for test, names in _TESTS.items() for name in names}
DEDICATED |= {
    "convolve": "test_convolve.py::test_matches_numpy",
    "correlate": "test_convolve.py::test_matches_numpy",
    "scatter_add": "test_scatter_add.py::test_matches_numpy",
}
