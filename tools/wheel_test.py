"""Installs dist/*.whl and dist/*.tar.gz in empty environments, uses them, and removes them again.

Checked: the wheel's contents, size and libraries; a venv with no compiler on PATH; one version everywhere; what
uninstalling leaves; the source distribution outside a repository; an editable install.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_MB = 60
# libgcc_s and the loader come with libstdc++ and libc; older C libraries have pthread and dl as files of their own.
LIBRARIES = {"libc.so.6", "libstdc++.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1",
             "ld-linux-x86-64.so.2"}
TRIAL = """
import importlib.metadata, numpy as np, pygpukit as gp
from pygpukit import _core
a = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
assert np.array_equal((a + a).to_numpy(), 2 * a.to_numpy())
assert np.array_equal((a @ a.T).to_numpy(), a.to_numpy() @ a.to_numpy().T)
versions = {gp.__version__, importlib.metadata.version("pygpukit"), _core._version()}
assert len(versions) == 1, versions
print(versions.pop())
"""


class Fault(Exception):
    pass


def require(condition: bool, text: str) -> None:
    if not condition:
        raise Fault(text)


def say(text: str) -> None:
    print(f"-- {text}", flush=True)


def needed_libraries(data: bytes) -> set[str]:
    """The DT_NEEDED entries of a 64-bit little-endian ELF file."""
    require(data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file")
    section_offset = struct.unpack_from("<Q", data, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    for section in sections:
        if section[1] != 6:  # SHT_DYNAMIC
            continue
        strings = sections[section[6]][4]
        names = set()
        for position in range(section[4], section[4] + section[5], 16):
            tag, value = struct.unpack_from("<qQ", data, position)
            if tag == 1:  # DT_NEEDED
                start = strings + value
                names.add(data[start : data.index(b"\0", start)].decode())
        return names
    raise Fault("no dynamic section")


def check_contents(wheel: Path, version: str) -> None:
    size = wheel.stat().st_size / 1e6
    require(size <= MAX_MB, f"{wheel.name} has {size:.1f} MB, the most is {MAX_MB}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"pygpukit-{version}.dist-info/"
        strangers = [n for n in names if not n.startswith(("pygpukit/", info, "_pygpukit_rust.py"))]
        require(not strangers, f"unexpected files in the wheel: {strangers[:5]}")
        stubs = ("pygpukit/_core/__init__.pyi", "pygpukit/_core/runtime/__init__.pyi")
        for wanted in ("pygpukit/py.typed", *stubs, "pygpukit/kernels.bundle"):
            require(wanted in names, f"the wheel has no {wanted}")
        core = next(n for n in names if n.startswith("pygpukit/_core.") and n.endswith(".so"))
        extra = needed_libraries(archive.read(core)) - LIBRARIES
        require(not extra, f"{core} links {sorted(extra)}")
    say(f"{wheel.name}: {size:.1f} MB, links nothing unexpected")


class Venv:
    def __init__(self, folder: Path, with_compiler: bool) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.python = folder / "bin" / "python"
        keep = {"HOME", "LANG", "TMPDIR", "PIP_CACHE_DIR", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "HTTPS_PROXY",
                "https_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CCACHE_DIR"}
        self.env = {name: value for name, value in os.environ.items() if name in keep}
        self.env["PATH"] = str(folder / "bin") + (os.pathsep + os.environ["PATH"] if with_compiler else "")
        self.env["PYGPUKIT_CACHE_DIR"] = str(folder / "kernel-cache")
        self.env["CCACHE_BASEDIR"] = str(folder.parent)
        self.env["CCACHE_NOHASHDIR"] = "1"
        self.env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"

    def run(self, *command: object, cwd: Path | None = None) -> str:
        run = subprocess.run(
            [str(c) for c in command], env=self.env, cwd=cwd or self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
        require(run.returncode == 0, f"{' '.join(map(str, command))}:\n{run.stdout[-4000:]}")
        return run.stdout

    def pip(self, *arguments: object) -> str:
        return self.run(self.python, "-m", "pip", *arguments)

    def files(self) -> set[str]:
        found = (p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if "__pycache__" not in p.parts)
        return {name for name in found if not name.startswith("kernel-cache")}


def check_use(venv: Venv, version: str) -> None:
    require(venv.run(venv.python, "-c", TRIAL).strip().splitlines()[-1] == version, "another version in use")
    shown = venv.run(venv.folder / "bin" / "pygpukit", "--version")
    require(version in shown, f"pygpukit --version prints {shown!r}, the version is {version}")


def check_wheel(folder: Path, wheel: Path, version: str) -> None:
    say("the wheel in an empty environment with no compiler")
    venv = Venv(folder / "wheel", with_compiler=False)
    venv.pip("install", "-q", "numpy")
    before = venv.files()
    venv.pip("install", "-q", "--no-deps", wheel)
    check_use(venv, version)
    venv.run(venv.folder / "bin" / "pygpukit", "doctor")
    venv.pip("uninstall", "-q", "-y", "pygpukit")
    left = venv.files() - before
    require(not left, f"uninstalling leaves {sorted(left)[:5]}")
    remains = [p for p in venv.folder.rglob("*pygpukit*") if "__pycache__" not in p.parts]
    require(not remains, f"uninstalling leaves {remains[:5]}")


def check_sdist(folder: Path, sdist: Path, version: str) -> None:
    say("the source distribution, unpacked outside a repository")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    source = folder / sdist.name.removesuffix(".tar.gz")
    require(source.is_dir() and not (source / ".git").exists(), f"{sdist.name} does not unpack into {source.name}")
    venv = Venv(folder / "sdist-venv", with_compiler=True)
    venv.pip("install", "-q", source)
    check_use(venv, version)


def check_editable(folder: Path, sdist: Path, version: str) -> None:
    say("an editable install")
    source = folder / sdist.name.removesuffix(".tar.gz")
    venv = Venv(folder / "editable-venv", with_compiler=True)
    venv.pip("install", "-q", "-e", source)
    check_use(venv, version)
    with (source / "python/pygpukit/__init__.py").open("a") as file:
        file.write("\nedited_here = 1\n")
    venv.run(venv.python, "-c", "import pygpukit; assert pygpukit.edited_here == 1")
    venv.pip("uninstall", "-q", "-y", "pygpukit")
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pygpukit') is not None)"
    venv.run(venv.python, "-c", code)


def newest(pattern: str) -> Path:
    found = sorted((ROOT / "dist").glob(pattern), key=lambda p: p.stat().st_mtime)
    require(bool(found), f"dist/ has no {pattern}; run `make wheel`")
    return found[-1]


def main() -> int:
    version = (ROOT / "VERSION").read_text().strip()
    folder = Path(tempfile.mkdtemp(prefix="wheel-test-"))
    try:
        wheel, sdist = newest("*.whl"), newest("*.tar.gz")
        check_contents(wheel, version)
        check_wheel(folder, wheel, version)
        check_sdist(folder, sdist, version)
        check_editable(folder, sdist, version)
    except Fault as fault:
        print(f"wheel-test: FAIL: {fault}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("wheel-test: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
