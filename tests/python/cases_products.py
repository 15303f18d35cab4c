"""Products beside matmul: each has a test of its own."""

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "einsum": "test_products.py::test_random_expressions",
    "tensordot": "test_products.py::test_tensordot",
    "vecdot": "test_products.py::test_vecdot",
    "cross": "test_products.py::test_cross",
    "outer": "test_products.py::test_outer_inner_dot",
    "inner": "test_products.py::test_outer_inner_dot",
    "dot": "test_products.py::test_outer_inner_dot",
    "matrix_transpose": "test_products.py::test_diagonal_and_transpose_are_views",
    "diagonal": "test_products.py::test_diagonal_and_transpose_are_views",
    "trace": "test_products.py::test_trace",
}
