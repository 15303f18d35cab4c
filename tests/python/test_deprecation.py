"""The helper that marks names as going away."""

import inspect
import warnings

import pytest

from pygpukit._deprecation import deprecated


@deprecated(since="0.3", removal="0.5", instead="pygpukit.add")
def plus(a, b=2):
    """Adds."""
    return a + b


def test_warns_with_replacement_at_the_callers_line():
    line = inspect.currentframe().f_lineno + 3
    message = r"plus is deprecated since 0\.3 and goes in 0\.5: use pygpukit\.add"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        assert plus(1, b=4) == 5
    assert caught[0].filename == __file__
    assert caught[0].lineno == line


def test_keeps_name_doc_and_signature():
    assert plus.__name__ == "plus"
    assert plus.__doc__ == "Adds."
    assert list(inspect.signature(plus).parameters) == ["a", "b"]


def test_warns_on_every_call():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plus(1)
        plus(1)
    assert len(caught) == 2
