"""Recurrences have tests of their own."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "lstm_forward": "test_recurrent.py::test_lstm_forward",
    "lstm_bidirectional": "test_recurrent.py::test_lstm_bidirectional",
}
