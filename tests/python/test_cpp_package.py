"""examples/cpp is built out of tree against the installed library."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def run(*command, **options):
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert result.returncode == 0, result.stdout
    return result.stdout


def generator():
    return ["-G", "Ninja"] if shutil.which("ninja") else []


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The library installed from the tree it was built in, or from one made here."""
    folder = tmp_path_factory.mktemp("prefix")
    tree = pathlib.Path(os.environ.get("PYGPUKIT_BUILD_TREE", ROOT / "build/cpp"))
    if not (tree / "cmake_install.cmake").exists():
        run("cmake", "-S", ROOT, "-B", tree, "-DGPUKIT_PYTHON=OFF", *generator())
    run("cmake", "--build", tree, "--target", "gpukit")
    run("cmake", "--install", tree, "--component", "library", "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def example(prefix, tmp_path_factory):
    source = tmp_path_factory.mktemp("example")
    for path in (ROOT / "examples/cpp").iterdir():
        shutil.copy(path, source)
    run("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *generator())
    run("cmake", "--build", source / "build")
    return source / "build/example"


def test_example_computes(example):
    output = run(example, env=dict(os.environ, PYGPUKIT_DEVICE="cpu"))
    assert f"gpukit {VERSION} on cpu" in output
    assert "a @ (a + 1).T = [[20, 38], [47, 92]]" in output


def test_a_captured_layer_replays(example):
    output = run(example.parent / "graph", env=dict(os.environ, PYGPUKIT_DEVICE="cpu"))
    assert "3 nodes, 3 of 3 replays equal" in output


def test_a_language_model_writes(example, assets):
    command = (example.parent / "generate", assets / "stories15M", "Once upon a time")
    output = run(*command, env=dict(os.environ, PYGPUKIT_DEVICE="cpu"))
    assert output.startswith("Once upon a time, there was a little girl named Lily.")


def test_package_has_the_version(prefix, tmp_path):
    for wanted, found in ((VERSION, True), ("99.0", False)):
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\n"
            f'find_package(gpukit {wanted} QUIET)\nmessage(STATUS "found=${{gpukit_FOUND}}")\n'
        )
        build = tmp_path / f"build-{wanted}"
        output = run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *generator())
        assert ("found=1" in output) == found


def test_every_installed_header_compiles_alone(prefix):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    include = prefix / "include"
    headers = sorted(p.relative_to(include) for p in include.rglob("*.h"))
    for wanted in ("gpukit/ops/matmul/linear.h", "gpukit/ops/matmul/weight.h", "gpukit/runtime/graph.h"):
        assert pathlib.Path(wanted) in headers

    def compile_alone(header):
        command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-I", str(include), "-x", "c++", "-"]
        text = f'#include "{header}"\n'
        return header, subprocess.run(command, input=text, capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, done in pool.map(compile_alone, headers):
            assert done.returncode == 0 and done.stderr == "", f"{header}: {done.stderr}"


def test_no_python_and_no_kernel_source_is_installed(prefix):
    names = {p.name for p in (prefix / "include").rglob("*")}
    assert "array.h" in names
    assert not any(name.endswith((".cuh", ".cpp")) or name == "bind.h" for name in names)
