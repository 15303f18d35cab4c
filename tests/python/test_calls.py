"""Calls that no function takes are answered in one line, and inspect.signature reads every function."""

import inspect

import pytest

import pygpukit as gp


def refused(call):
    with pytest.raises(TypeError) as raised:
        call()
    text = str(raised.value)
    assert "\n" not in text and "incompatible" not in text and "pygpukit._core" not in text
    return text


@pytest.fixture
def x():
    return gp.ones((2, 3), device="cpu")


def test_an_unknown_keyword_is_named(x):
    takes = "got an unexpected keyword 'axes'; it takes "
    assert refused(lambda: gp.sum(x, axes=0)) == f"sum: {takes}a, axis, keepdims, dtype, out"
    assert refused(lambda: x.sum(axes=0)) == f"sum: {takes}axis, keepdims, dtype, out"
    bound = x.sum
    assert refused(lambda: bound(axes=0)) == f"sum: {takes}axis, keepdims, dtype, out"
    assert refused(lambda: gp.GPUArray(3, axes=0)).startswith(f"GPUArray: {takes}shape, dtype")
    assert refused(lambda: gp.fft.fft(x, axes=0)).startswith(f"fft: {takes}")
    assert refused(lambda: gp.random.seed(axes=0)) == f"seed: {takes}seed"
    assert refused(lambda: gp.random.Generator(1).seed(axes=0)) == f"seed: {takes}seed"


def test_a_missing_extra_or_doubled_argument_is_named(x):
    assert refused(lambda: gp.sum()).startswith("sum: argument 'a' is missing; it takes a, axis")
    assert refused(lambda: gp.sum(x, 0, True, None)).startswith("sum: takes at most 3 positional arguments, got 4")
    assert refused(lambda: x.sum(0, True, None)).startswith("sum: takes at most 2 positional arguments, got 3")
    assert refused(lambda: gp.sum(x, a=x)) == "sum: got several values for 'a'"
    assert refused(lambda: gp.Device(1, 2, 3)).startswith("Device: takes at most 1 positional argument, got 3")


def test_a_wrong_type_is_named(x):
    assert refused(lambda: gp.sum(x, keepdims="yes")) == "sum: keepdims must be bool, got str"


def functions(module, seen):
    for name, value in vars(module).items():
        if inspect.ismodule(value) and value.__name__.startswith("pygpukit._core") and value not in seen:
            seen.append(value)
            yield from functions(value, seen)
        elif isinstance(value, type) and value.__module__.startswith("pygpukit._core"):
            yield from ((f"{name}.{key}", f) for key, f in vars(value).items() if hasattr(f, "__nb_signature__"))
        elif hasattr(value, "__nb_signature__"):
            yield f"{module.__name__}.{name}", value


def test_every_function_has_a_signature():
    found = dict(functions(gp._core, []))
    assert len(found) > 500
    for name, function in found.items():
        assert isinstance(inspect.signature(function), inspect.Signature), name


def test_signatures(x):
    assert str(inspect.signature(gp.sum)).startswith("(a: 'pygpukit._core.GPUArray', axis: ")
    parameters = inspect.signature(gp.sum).parameters
    assert list(parameters) == ["a", "axis", "keepdims", "dtype", "out"]
    assert parameters["keepdims"].default is False and parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(inspect.signature(x.sum).parameters) == ["axis", "keepdims", "dtype", "out"]
    assert next(iter(inspect.signature(gp.GPUArray.sum).parameters)) == "self"
    assert list(inspect.signature(gp.GPUArray.__init__).parameters)[:2] == ["self", "shape"]
    assert inspect.signature(gp.sum).bind(x, axis=0).arguments["axis"] == 0
