"""``pygpukit info``."""

from __future__ import annotations

import json
from typing import Any

from pygpukit.cli import facts
from pygpukit.cli.text import bold, human_bytes, table, wrapped

__all__ = ["info", "show_devices", "show_libraries"]


def show_devices(devices: list[dict[str, Any]]) -> None:
    rows = [["device", "name", "SM", "memory", "free", "multiprocessors"]]
    for d in devices:
        if "error" in d:
            rows.append([d["device"], d["error"], "", "", "", ""])
            continue
        sm = str(d["sm"]) if "sm" in d else "-"
        memory = (human_bytes(d["total_memory"]), human_bytes(d["free_memory"]))
        rows.append([d["device"], d["name"], sm, *memory, str(d["multiprocessors"])])
    print(table(rows))


def show_libraries(libraries: list[dict[str, Any]]) -> None:
    for library in libraries:
        if library["path"]:
            print(wrapped(f"{library['name']} {library['version']}: {library['path']}"))
        else:
            print(wrapped(f"{library['name']}: {library['reason']}"))


def info(as_json: bool) -> int:
    """Prints every fact. Always succeeds."""
    all_facts = facts.collect()
    if as_json:
        print(json.dumps(all_facts, indent=2))
        return 0
    print(bold(f"PyGPUkit {all_facts['version']}"))
    print(wrapped(f"mode: {all_facts['mode_text']}"))
    print(wrapped(f"default device: {all_facts['default_device']}"))
    print(wrapped(f"Python {all_facts['python']}, NumPy {all_facts['numpy']}, {all_facts['platform']}"))
    print(f"  CPU threads: {all_facts['threads']}")
    print(bold("Devices"))
    show_devices(all_facts["devices"])
    print(bold("Libraries"))
    show_libraries(all_facts["libraries"])
    print(bold("Kernels"))
    cache, bundle = all_facts["cache"], all_facts["bundle"]
    state = "on" if cache["enabled"] else f"off ({cache['reason']})"
    print(wrapped(f"cache: {state}, {cache['folder']}, {cache['entries']} entries, {human_bytes(cache['bytes'])}"))
    print(wrapped(f"bundle: {bundle['path'] or bundle['reason']}"))
    modules = ", ".join(f"{count} {origin}" for origin, count in all_facts["kernel_modules"].items())
    print(wrapped(f"modules: {modules or 'none'}"))
    print(bold("Environment"))
    for variable in all_facts["environment"]:
        value = variable["value"] if variable["value"] is not None else "(not set)"
        print(wrapped(f"{variable['name']}={value}"))
    return 0
