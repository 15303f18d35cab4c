"""The strategies of hypothesis over our namespace, by which test-suites of the array standard draw their arrays."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import array_api
from standard_values import ALL, FLOATS

import pygpukit as gp

with warnings.catch_warnings():
    warnings.simplefilter("error")
    xps = array_api.make_strategies_namespace(gp)


def test_the_version_is_known():
    assert xps.api_version == gp.__array_api_version__


@pytest.mark.parametrize("dtype", ALL)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_arrays(dtype, data):
    wanted = getattr(gp, dtype)
    shape = data.draw(xps.array_shapes(min_dims=0, min_side=0, max_side=4))
    fill = data.draw(st.sampled_from([None, st.nothing(), xps.from_dtype(wanted)]))
    x = data.draw(xps.arrays(wanted, shape, fill=fill))
    assert (x.dtype, x.shape) == (wanted, shape)
    distinct = data.draw(xps.arrays(wanted, 2, unique=True))
    assert gp.unique_values(distinct).size == 2
    key = data.draw(xps.indices(shape, allow_newaxis=True))
    assert x[key].dtype == wanted


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_subnormal_numbers_are_kept(dtype, data):
    most = gp.finfo(getattr(gp, dtype)).smallest_normal / 2
    x = data.draw(xps.arrays(getattr(gp, dtype), 3, elements={"min_value": 0, "max_value": most, "exclude_min": True}))
    assert gp.all((x > 0) & (x <= most))


@pytest.mark.parametrize(
    "kind, strategy",
    [
        ("bool", xps.boolean_dtypes()),
        ("signed integer", xps.integer_dtypes()),
        ("unsigned integer", xps.unsigned_integer_dtypes()),
        ("real floating", xps.floating_dtypes()),
        ("complex floating", xps.complex_dtypes()),
    ],
)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_dtypes_drawn_are_ours(kind, strategy, data):
    assert data.draw(strategy) in gp.__array_namespace_info__().dtypes(kind=kind).values()
