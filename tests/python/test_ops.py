"""Every operation of every family, on every device, in every dtype and layout it takes."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from opcase import COMPLEX, FLOATS, OpCase, assert_within, upload

import pygpukit as gp

HERE = Path(__file__).parent
FAMILIES = [importlib.import_module(path.stem) for path in sorted(HERE.glob("cases_*.py"))]
CASES: list[OpCase] = [case for family in FAMILIES for case in family.CASES]
DEDICATED: dict[str, str] = {
    name: test for family in FAMILIES for name, test in getattr(family, "DEDICATED", {}).items()
}

PAIRS = [pytest.param(case, dtype, id=f"{case.label}-{dtype}") for case in CASES for dtype in case.dtypes]
OUT_PAIRS = [p for p in PAIRS if p.values[0].has_out]
POISON = 77


def call(case: OpCase, *arguments, **keywords):
    return getattr(gp.ops, case.name)(*arguments, **case.kwargs, **keywords)


def arrays(case, inputs, dtype, layout="contiguous"):
    return [lay_out(x, case.input_dtype(i, dtype), layout) for i, x in enumerate(inputs)]


def lay_out(values, dtype, layout):
    """The same values as a view in another layout."""
    if layout == "contiguous" or values.ndim == 0:
        return upload(values, dtype)
    if layout == "transposed":
        return upload(values.T, dtype).T
    if layout == "every other":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return upload(wide, dtype)[..., ::2]
    if layout == "reversed":
        return upload(np.flip(values), dtype)[tuple(slice(None, None, -1) for _ in values.shape)]
    if layout == "offset":  # starts one element into its memory
        flat = upload(np.concatenate([np.zeros(1, values.dtype), values.ravel()]), dtype)
        return flat[1:].reshape(*values.shape)
    raise AssertionError(layout)


@pytest.mark.parametrize("case, dtype", PAIRS)
def test_matches_reference(case, dtype, device, rng):
    for shape in case.shapes:
        inputs = case.inputs(rng, shape, dtype)
        actual = call(case, *arrays(case, inputs, dtype))
        assert_within(
            actual, case.expected(inputs), case.result_dtype(dtype), case.allowed(dtype), f"{case.label} {shape}"
        )


@pytest.mark.parametrize("case, dtype", PAIRS)
def test_any_layout(case, dtype, device, rng):
    inputs = case.inputs(rng, case.layout_shape, dtype)
    expected = case.expected(inputs)
    for layout in ("transposed", "every other", "reversed", "offset"):
        views = arrays(case, inputs, dtype, layout)
        plain = arrays(case, inputs, dtype)
        # Every input in the layout, then one of them only.
        mixes = [views] + [[*plain[:i], views[i], *plain[i + 1 :]] for i in range(case.arity) if case.arity > 1]
        for mix in mixes:
            assert_within(
                call(case, *mix), expected, case.result_dtype(dtype), case.allowed(dtype), f"{case.label} {layout}"
            )


@pytest.mark.parametrize("case, dtype", [p for p in PAIRS if p.values[0].elementwise and p.values[0].arity > 1])
def test_broadcasts(case, dtype, device, rng):
    for left, right in [
        ((4, 33), (33,)),
        ((33, 1), (1, 18)),
        ((2, 1, 5), (7, 1)),
        ((), (3, 2)),
        ((0, 3), (1, 3)),
        ((40, 1), (40, 36)),
    ]:
        inputs = [case.inputs(rng, (left, right, left)[i], dtype)[i] for i in range(case.arity)]
        actual = call(case, *arrays(case, inputs, dtype))
        assert_within(
            actual, case.expected(inputs), case.result_dtype(dtype), case.allowed(dtype), f"{case.label} {left} {right}"
        )


@pytest.mark.parametrize("case, dtype", OUT_PAIRS)
def test_out(case, dtype, device, rng):
    inputs = case.inputs(rng, case.layout_shape, dtype)
    expected = case.expected(inputs)
    result = case.result_dtype(dtype)
    poison = np.full(expected.shape, POISON).astype(np.complex128 if result in COMPLEX else np.float64)
    for layout in ("contiguous", "transposed", "every other"):
        out = lay_out(poison, result, layout)
        returned = call(case, *arrays(case, inputs, dtype), out=out)
        assert returned is out
        assert_within(out, expected, result, case.allowed(dtype), f"{case.label} out {layout}")


@pytest.mark.parametrize("case, dtype", [p for p in OUT_PAIRS if p.values[0].elementwise])
def test_out_may_be_an_input(case, dtype, device, rng):
    inputs = case.inputs(rng, (9, 9), dtype)
    for i in range(case.arity):
        if case.input_dtype(i, dtype) != case.result_dtype(dtype):
            continue
        given = arrays(case, inputs, dtype)
        call(case, *given, out=given[i])
        assert_within(
            given[i], case.expected(inputs), case.result_dtype(dtype), case.allowed(dtype), f"{case.label} in place"
        )
        # The same memory in another order: as if the input had been read first.
        given = arrays(case, inputs, dtype)
        call(case, *given, out=given[i].T)
        assert_within(
            given[i].T,
            case.expected(inputs),
            case.result_dtype(dtype),
            case.allowed(dtype),
            f"{case.label} over its transpose",
        )


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES if c.has_out])
def test_out_is_checked(case, device, rng):
    dtype = case.dtypes[0]
    inputs = case.inputs(rng, case.layout_shape, dtype)
    expected = case.expected(inputs)
    given = arrays(case, inputs, dtype)
    with pytest.raises(ValueError, match="out must have shape"):
        call(case, *given, out=gp.zeros((*expected.shape, 2), dtype=case.result_dtype(dtype)))
    other = "int16" if case.result_dtype(dtype) != "int16" else "int32"
    with pytest.raises(gp.errors.DTypeError, match="out must have dtype"):
        call(case, *given, out=gp.zeros(expected.shape, dtype=other))
    if expected.ndim and expected.size > 1:
        with pytest.raises(ValueError, match="twice"):
            call(case, *given, out=gp.broadcast_to(gp.zeros((), dtype=case.result_dtype(dtype)), expected.shape))
    with pytest.raises(TypeError):
        call(case, *given, out=expected)


@pytest.mark.parametrize("case, dtype", [p for p in PAIRS if p.values[0].scalars and p.values[1] != "bool"])
def test_numbers_are_weak(case, dtype, device, rng):
    x, y = case.inputs(rng, (33,), dtype)
    number = {True: float, False: int}[dtype in FLOATS + COMPLEX](np.real(y[0]))
    as_array = np.full(x.shape, number, y.dtype)
    result = case.result_dtype(dtype)
    assert_within(
        call(case, upload(x, dtype), number),
        case.expected([x, as_array]),
        result,
        case.allowed(dtype),
        f"{case.label} x, number",
    )
    as_array = np.full(x.shape, {True: float, False: int}[dtype in FLOATS + COMPLEX](np.real(x[0])), x.dtype)
    assert_within(
        call(case, as_array[0].item(), upload(y, dtype)),
        case.expected([as_array, y]),
        result,
        case.allowed(dtype),
        f"{case.label} number, x",
    )


@pytest.mark.parametrize("case, dtype", [pytest.param(c, d, id=f"{c.label}-{d}") for c in CASES for d in c.rejects])
def test_other_dtypes_are_refused(case, dtype, device):
    given = [
        gp.zeros(
            case.layout_shape,
            dtype=case.input_dtypes[i] if i < len(case.input_dtypes) and case.input_dtypes[i] else dtype,
        )
        for i in range(case.arity)
    ]
    with pytest.raises(gp.errors.DTypeError) as caught:
        call(case, *given)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert dtype in str(caught.value)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES if c.elementwise and c.arity > 1])
def test_shapes_that_do_not_broadcast(case, device):
    given = [gp.zeros((3, 4 + i % 2), dtype=case.input_dtype(i, case.dtypes[-1])) for i in range(case.arity)]
    with pytest.raises(ValueError, match="shape"):
        call(case, *given)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES if c.arity > 1])
def test_devices_do_not_mix(case):
    given = [
        gp.zeros(case.layout_shape, dtype=case.input_dtype(i, case.dtypes[-1]), device="cuda" if i else "cpu")
        for i in range(case.arity)
    ]
    with pytest.raises(gp.errors.DeviceError, match="is on"):
        call(case, *given)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES])
def test_only_arrays_are_taken(case, device):
    with pytest.raises(TypeError, match=case.name if not case.aliases else "must be|expected"):
        call(case, *[np.zeros(case.layout_shape, "float32")] * case.arity)


@pytest.mark.parametrize("case, alias", [pytest.param(c, a, id=a) for c in CASES for a in c.aliases])
def test_aliases(case, alias, device, rng):
    inputs = case.inputs(rng, case.layout_shape, case.dtypes[0])
    given = arrays(case, inputs, case.dtypes[0])
    first = call(case, *given).to_numpy()
    np.testing.assert_array_equal(getattr(gp.ops, alias)(*given, **case.kwargs).to_numpy(), first)


def test_every_operation_has_a_case():
    covered = {case.name for case in CASES} | {alias for case in CASES for alias in case.aliases} | set(DEDICATED)
    missing = sorted(set(gp.ops.__all__) - covered)
    assert not missing, f"operations without a case or a dedicated test: {missing}"
    unknown = sorted(covered - set(gp.ops.__all__))
    assert not unknown, f"cases of operations that do not exist: {unknown}"


@pytest.mark.parametrize("name", sorted(DEDICATED))
def test_dedicated_tests_exist(name):
    file, function = DEDICATED[name].split("::")
    source = (HERE / file).read_text()
    found = re.search(rf"^def {function}\(.*?(?=^def |^@|\Z)", source, re.MULTILINE | re.DOTALL)
    assert found, f"{file} has no {function}, which is said to test {name}"
    assert re.search(rf"\b{name}\b", found.group(0)) or re.search(rf"\b{name}\b", source), (
        f"{file} never mentions {name}"
    )
