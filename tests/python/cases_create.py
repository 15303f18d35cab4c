"""Factories and matrix products: tested by functions of their own."""

CASES: list = []
DEDICATED = {
    "zeros": "test_create.py::test_constants",
    "ones": "test_create.py::test_constants",
    "full": "test_create.py::test_constants",
    "empty": "test_create.py::test_defaults",
    "zeros_like": "test_create.py::test_like",
    "ones_like": "test_create.py::test_like",
    "full_like": "test_create.py::test_like",
    "empty_like": "test_create.py::test_like",
    "eye": "test_create.py::test_eye",
    "arange": "test_create.py::test_arange_of_integers",
    "linspace": "test_create.py::test_linspace",
    "matmul": "test_matmul.py::test_matches_float64",
    "explain_matmul": "test_matmul.py::test_explain",
    "determinism": "test_matmul.py::test_determinism",
    "get_determinism": "test_matmul.py::test_determinism",
    "batched_matmul": "test_matmul.py::test_batched_and_transpose",
    "transpose": "test_matmul.py::test_batched_and_transpose",
    "linear": "test_linear.py::test_linear",
    "linear_swiglu": "test_linear.py::test_swiglu",
    "linear_bias_gelu": "test_matmul.py::test_linear_bias_gelu",
}
