"""What the Makefile calls: sets up an environment, builds, installs, runs. Standard library only.

`python3 tools/dev.py COMMAND`; each command does everything it needs first and nothing twice. Files are written under
.venv/ and build/ alone. With PYGPUKIT_SYSTEM_PYTHON=1 the running Python is used as it is, for machines on which
nothing can be installed: what it lacks is taken from wheelhouse/ (see `make wheelhouse`).
"""

import concurrent.futures
import hashlib
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import threading
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VENV = ROOT / ".venv"
WHEELHOUSE = Path(os.environ.get("PYGPUKIT_WHEELHOUSE", ROOT / "wheelhouse"))
SILENCE_S = 8


class Failure(Exception):
    """Ends the program with one line."""


def say(text):
    print(f"-- {text}", flush=True)


def run(command, env=None, label=None, cwd=ROOT):
    """Runs a command and passes its output on; says so when it is silent but alive. Returns the exit status."""
    command = [str(part) for part in command]
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    chunks = queue.Queue()

    def read():
        while chunk := os.read(process.stdout.fileno(), 65536):
            chunks.put(chunk)
        chunks.put(None)

    threading.Thread(target=read, daemon=True).start()
    began = time.monotonic()
    fresh_line = True
    while True:
        try:
            chunk = chunks.get(timeout=SILENCE_S)
        except queue.Empty:
            print("" if fresh_line else "\n", end="")
            say(f"{label or Path(command[0]).name}: {time.monotonic() - began:.0f} s")
            fresh_line = True
            continue
        if chunk is None:
            return process.wait()
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        fresh_line = chunk.endswith(b"\n")


def must_run(command, env=None, label=None, cwd=ROOT):
    status = run(command, env, label, cwd)
    if status != 0:
        raise Failure(f"{label or command[0]} failed with status {status}")


def digest(*parts):
    """A short hash of texts and of the bytes of files and folders."""
    h = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            paths = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
            for path in paths:
                if "__pycache__" not in path.parts and path.exists():
                    h.update(str(path).encode() + b"\0" + path.read_bytes())
        else:
            h.update(str(part).encode() + b"\0")
    return h.hexdigest()[:16]


def is_current(stamp, key):
    return stamp.exists() and stamp.read_text() == key


def mark(stamp, key):
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)


# Needs


def compiler():
    for name in filter(None, [os.environ.get("CXX"), "c++", "g++", "clang++"]):
        if path := shutil.which(name):
            return path
    return None


def has_cpp20(cxx):
    return compiles(
        cxx, "#include <span>\n#include <concepts>\nstatic_assert(__cplusplus >= 202002L);\nint main() {}\n"
    )


def compiles(cxx, program):
    command = [cxx, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    return subprocess.run(command, input=program.encode(), capture_output=True).returncode == 0


def check_needs(tests=False):
    """One line for each thing that is missing, with the Debian package that brings it. `tests`: the C++ tests' too."""
    missing = []
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        missing.append("the Python modules venv and ensurepip (Debian: python3-venv)")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing.append("the C headers of Python (Debian: python3-dev)")
    cxx = compiler()
    if cxx is None:
        missing.append("a C++20 compiler (Debian: g++)")
    elif not has_cpp20(cxx):
        missing.append(f"a C++20 compiler, {cxx} is none (Debian: g++, version 12 or newer)")
    elif tests and gtest_archive() is None and not compiles(cxx, "#include <gtest/gtest.h>\n"):
        missing.append("GoogleTest, for the C++ tests (Debian: libgtest-dev)")
    for line in missing:
        print(f"missing: {line}", flush=True)
    if missing:
        raise Failure("install what is missing, then run the same command again")


# Environment


def system_mode():
    return os.environ.get("PYGPUKIT_SYSTEM_PYTHON") == "1"


def venv_python():
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def python():
    return Path(sys.executable) if system_mode() else venv_python()


def base():
    return BUILD / "system" if system_mode() else BUILD


def environment(**extra):
    env = dict(os.environ)
    env["PATH"] = os.pathsep.join([str(python().parent), env.get("PATH", "")])
    env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", os.environ.get("JOBS") or str(os.cpu_count() or 2))
    env["PYTHONUNBUFFERED"] = "1"
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["PYGPUKIT_BUILD_TREE"] = str(base() / "release")
    if system_mode():
        paths = [str(base() / "site"), str(base() / "deps"), env.get("PYTHONPATH")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    env.update({name: str(value) for name, value in extra.items()})
    return env


def tool_version(command):
    try:
        out = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        digits = next(word for word in out.split() if word[0].isdigit())
        return tuple(int(x) for x in digits.split(".")[:2])
    except (OSError, subprocess.CalledProcessError, StopIteration, ValueError):
        return (0, 0)


def requirements(kind):
    """The pinned lines for a kind of work: `build`, `test` (includes build)."""
    lines = []
    for name in ["build"] if kind == "build" else ["build", kind]:
        text = (ROOT / f"tools/requirements-{name}.txt").read_text()
        lines += [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if tool_version("cmake") < (3, 25):
        lines.append("cmake>=3.25,<5")
    if tool_version("ninja") < (1, 10):
        lines.append("ninja>=1.11")
    return lines


def set_up(kind="build"):
    if system_mode():
        return set_up_system()
    check_needs()
    if not venv_python().exists():
        say(f"creating {VENV.name}")
        must_run([sys.executable, "-m", "venv", VENV], label="venv")
    lines = requirements(kind)
    stamp = VENV / f"stamp-{kind}"
    key = digest(*lines, sys.version)
    if not is_current(stamp, key):
        say(f"installing {len(lines)} packages from PyPI")
        must_run([python(), "-m", "pip", "install", "--quiet", *lines], environment(), "pip")
        mark(stamp, key)


def set_up_system():
    """Unpacks wheelhouse/*.whl beside the running Python, which itself is left as it is."""
    deps = base() / "deps"
    wheels = sorted(WHEELHOUSE.glob("*.whl"))
    key = digest(*[w.name for w in wheels])
    if not is_current(base() / "stamp-deps", key):
        shutil.rmtree(deps, ignore_errors=True)
        deps.mkdir(parents=True)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(deps)
        mark(base() / "stamp-deps", key)
    probe = "import nanobind, scikit_build_core, numpy, pytest, hypothesis"
    if subprocess.run([sys.executable, "-c", probe], env=environment(), capture_output=True).returncode != 0:
        raise Failure(f"{sys.executable} cannot `{probe}`: fill {WHEELHOUSE.name}/ by `make wheelhouse` elsewhere")


# Build


def build_wheel(tree, out, **defines):
    """Builds a wheel through the build backend in a tree that is kept, so only what changed is compiled."""
    settings = {"build-dir": str(tree), **{f"cmake.define.{k}": str(v) for k, v in defines.items()}}
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    code = (
        "import sys\nfrom scikit_build_core.build import build_wheel\n"
        f"build_wheel({str(out)!r}, {settings!r})\n"
    )
    must_run([python(), "-c", code], environment(), "build")
    return next(out.glob("*.whl"))


def unpack(wheel, site):
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def source_key(*extra):
    files = [ROOT / name for name in ("gpukit", "python", "cmake", "CMakeLists.txt", "pyproject.toml", "VERSION")]
    return digest(*files, python(), sys.version, *extra)


def build(kind="build", archs=""):
    """The package, installed where `python()` finds it. ARCHS names chips to compile the kernels for beforehand.

    Warnings are errors, unless GPUKIT_WERROR=OFF. A build by pip never has them as errors.
    """
    set_up(kind)
    stamp = base() / "stamp-install"
    key = source_key(archs)
    if is_current(stamp, key) and is_installed():
        return
    say("building pygpukit")
    werror = os.environ.get("GPUKIT_WERROR", "ON")
    try:
        install(build_wheel(base() / "release", base() / "wheel", GPUKIT_BUNDLE="", GPUKIT_WERROR=werror))
    except Failure:
        # Who only wants to run it may have a compiler that warns of more.
        if kind != "build" or werror == "OFF":
            raise
        werror = "OFF"
        say("building again, with warnings no errors")
        install(build_wheel(base() / "release", base() / "wheel", GPUKIT_BUNDLE="", GPUKIT_WERROR=werror))
    if archs:
        bundle = base() / "kernels.bundle"
        make_bundle(bundle, archs)
        install(build_wheel(base() / "release", base() / "wheel", GPUKIT_BUNDLE=bundle, GPUKIT_WERROR=werror))
    mark(stamp, key)


def is_installed():
    probe = [python(), "-c", "import pygpukit._core"]
    return subprocess.run(probe, env=environment(), cwd=BUILD, capture_output=True).returncode == 0


def install(wheel):
    if system_mode():
        unpack(wheel, base() / "site")
    else:
        flags = ["--quiet", "--no-deps", "--no-index", "--force-reinstall"]
        must_run([python(), "-m", "pip", "install", *flags, wheel], environment(), "pip install")


def make_bundle(path, archs):
    """A generic kernel is compiled for the plain chip; one written for 90a is added to 90 by the bundle itself."""
    chips = ",".join(dict.fromkeys(arch.strip().rstrip("af") for arch in archs.split(",")))
    say(f"compiling the kernels for {chips}")
    must_run([python(), "-m", "pygpukit._bundle", "--out", path, "--archs", chips], environment(), "bundle", BUILD)


def gtest_archive():
    return next(iter(sorted(WHEELHOUSE.glob("googletest*.tar.gz"))), None)


def find_gtest():
    """CMake finds a system GoogleTest. Here: the unpacked copy of wheelhouse/, where there is one."""
    archive = gtest_archive()
    if archive is None:
        if not system_mode():
            check_needs(tests=True)
        return []
    target = BUILD / "googletest"
    if not target.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(target)
    return [f"-DFETCHCONTENT_SOURCE_DIR_GOOGLETEST={next(p for p in target.iterdir() if p.is_dir())}"]


def cmake_build(tree, target, *defines):
    if not (tree / "build.ninja").exists() or defines:
        command = ["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", f"-DPython_EXECUTABLE={python()}", *defines]
        must_run(command, environment(), "cmake")
    must_run(["cmake", "--build", tree, "--target", target], environment(), "build")


def build_cpp_tests(tree, *defines):
    """gpukit_tests, in the tree of the extension, whose objects it shares."""
    cmake_build(tree, "gpukit_tests", "-DGPUKIT_TESTS=ON", *find_gtest(), *defines)


def cpp_tests(tree=None, *defines, env=None):
    """Builds gpukit_tests and runs it."""
    tree = tree or base() / "release"
    build_cpp_tests(tree, *defines)
    run_shards(tree / "gpukit_tests", env or environment())


def run_shards(program, env):
    """Runs a test program as several processes. Tells the closing lines of each, and all of one that failed."""
    count = min(8, os.cpu_count() or 1)

    def run_one(index):
        own = {**env, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
        return subprocess.run([str(program)], cwd=ROOT, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    began = time.monotonic()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        left = {pool.submit(run_one, index) for index in range(count)}
        while left:
            done, left = concurrent.futures.wait(left, SILENCE_S, concurrent.futures.FIRST_COMPLETED)
            if not done:
                say(f"{program.name}: {time.monotonic() - began:.0f} s")
            for future in done:
                text = future.result().stdout.decode(errors="replace")
                if future.result().returncode != 0:
                    failed += 1
                    say(f"status {future.result().returncode}")
                else:
                    text = text[text.rfind("[==========]") :]
                print(text, flush=True)
    if failed:
        raise Failure(f"{program.name} failed in {failed} of {count} processes")


def wheel(archs):
    """dist/: a wheel with the kernels of every chip, and the source distribution."""
    build("test")
    bundle = BUILD / "kernels.bundle"
    make_bundle(bundle, archs)
    dist = ROOT / "dist"
    built = build_wheel(BUILD / "release", BUILD / "wheel", GPUKIT_BUNDLE=bundle, GPUKIT_WERROR="ON")
    dist.mkdir(exist_ok=True)
    shutil.copy(built, dist)
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(dist)!r})"
    must_run([python(), "-c", code], environment(), "sdist")
    say(f"dist/{built.name}: {built.stat().st_size / 1e6:.1f} MB")


# Sanitizers


def sanitizer_library(name):
    path = subprocess.run([compiler(), f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return path if os.path.isabs(path) else None


def build_sanitized():
    """Builds and installs the package under the sanitizers, apart from the usual one. Gives the environment to use it."""
    set_up("test")
    libasan = sanitizer_library("libasan.so")
    if libasan is None:
        raise Failure(f"{compiler()} has no shared libasan to run Python with")
    stamp, key = BUILD / "stamp-asan", source_key("asan")
    if not is_current(stamp, key):
        say("building pygpukit under the sanitizers")
        unpack(build_wheel(BUILD / "asan", BUILD / "asan-wheel", GPUKIT_SANITIZE="address"), BUILD / "asan-site")
        mark(stamp, key)
    preload = " ".join(filter(None, [libasan, sanitizer_library("libstdc++.so")]))
    # The interpreter itself leaks by design, so leaks are looked for in the C++ tests alone.
    return environment(LD_PRELOAD=preload, PYTHONPATH=BUILD / "asan-site", ASAN_OPTIONS="detect_leaks=0",
                       UBSAN_OPTIONS="print_stacktrace=1", PYTHONMALLOC="malloc", HYPOTHESIS_PROFILE="quick")


def sanitize():
    env = build_sanitized()
    options = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1",
               "PYGPUKIT_FUZZ": os.environ.get("PYGPUKIT_FUZZ", "100000")}
    cpp_tests(BUILD / "asan", env=environment(**options))
    must_run([python(), "-m", "pytest", "-q", "-x", "tests/python"], env, "pytest")


def fuzz_api(calls, seed):
    """Hostile calls of the Python API under the sanitizers; what asks for more than 1 GiB at once is refused."""
    env = build_sanitized()
    limits = "max_allocation_size_mb=1024:allocator_may_return_null=1:hard_rss_limit_mb=6000"
    env["ASAN_OPTIONS"] += ":" + limits
    env["UBSAN_OPTIONS"] += ":halt_on_error=1"
    must_run([python(), "tools/fuzz_api.py", "--calls", calls, "--seed", seed, "--progress"], env, "fuzz-api")


def tsan():
    set_up("test")
    cpp_tests(BUILD / "tsan", "-DGPUKIT_SANITIZE=thread", "-DGPUKIT_PYTHON=OFF",
              env=environment(TSAN_OPTIONS="halt_on_error=1", PYGPUKIT_FUZZ=os.environ.get("PYGPUKIT_FUZZ", "50000")))


def fuzz_pool(steps):
    """The memory pool against its model, `steps` times."""
    build()
    tree = base() / "release"
    build_cpp_tests(tree)
    must_run([tree / "gpukit_tests", "--gtest_filter=PoolFuzz*"], environment(PYGPUKIT_FUZZ=steps), "fuzz-pool")


# Command line


def execute(command):
    if command and command[0] == "python":
        command = [python(), *command[1:]]
    elif command and command[0] == "pygpukit":
        command = [python(), "-m", "pygpukit", *command[1:]]
    return run(command, environment(), Path(str(command[0])).name)


def wheelhouse(version):
    """Downloads what a machine without network needs beside NumPy: wheels for its Python, and GoogleTest."""
    set_up("test")
    WHEELHOUSE.mkdir(exist_ok=True)
    command = [python(), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", WHEELHOUSE,
               "--python-version", version, "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64",
               "-r", ROOT / "tools/requirements-offline.txt"]
    must_run(command, environment(), "pip download")
    archive = WHEELHOUSE / "googletest.tar.gz"
    if Path("/usr/src/googletest").is_dir():
        with tarfile.open(archive, "w:gz") as tar:
            tar.add("/usr/src/googletest", "googletest")
    else:
        import urllib.request

        urllib.request.urlretrieve("https://github.com/google/googletest/archive/refs/tags/v1.17.0.tar.gz", archive)
    say(f"{WHEELHOUSE.name}/ is ready: carry it to the other machine, beside the Makefile")


def main(arguments):
    name, *rest = arguments or ["needs"]
    kind = os.environ.get("KIND", "test")
    if name == "needs":
        check_needs()
    elif name == "needs-tests":
        if not system_mode():
            check_needs(tests=True)
    elif name == "setup":
        set_up(kind)
    elif name == "build":
        build(kind, os.environ.get("ARCHS", ""))
    elif name == "build-cpp-tests":
        build_cpp_tests(base() / "release")
    elif name == "cpp-tests":
        cpp_tests()
    elif name == "sanitize":
        sanitize()
    elif name == "tsan":
        tsan()
    elif name == "fuzz-pool":
        fuzz_pool(os.environ.get("N", "1000000"))
    elif name == "fuzz-api":
        fuzz_api(os.environ.get("N", "1000000"), os.environ.get("SEED", "1"))
    elif name == "build-sanitized":
        build_sanitized()
    elif name == "wheel":
        wheel(os.environ.get("ARCHS") or "80,90,100,120")
    elif name == "wheelhouse":
        wheelhouse(os.environ.get("FOR", f"{sys.version_info[0]}.{sys.version_info[1]}"))
    elif name == "exec":
        return execute(rest[1:] if rest[:1] == ["--"] else rest)
    else:
        raise Failure(f"unknown command {name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr, flush=True)
        sys.exit(1)
