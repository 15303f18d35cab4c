"""Operations bound with the class GPUArray."""

CASES: list = []
DEDICATED = {"bitcast": "test_array.py::test_bitcast"}
