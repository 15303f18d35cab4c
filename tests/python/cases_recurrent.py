"""Recurrences have tests of their own."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "lstm_forward": "test_recurrent.py::test_lstm_forward",
    "lstm_bidirectional": "test_recurrent.py::test_lstm_bidirectional",
    "causal_conv1d": "test_recurrent.py::test_causal_conv1d",
    "selective_scan": "test_recurrent.py::test_selective_scan",
}
